// Determines views, and the strides of results, by LibTorch's CPU rules.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/saturate.h"
#include "family/aten_operators.h"
#include "family/aten_targets.h"

namespace sluice::detail {
namespace {

namespace aten_views {

using Sizes = std::vector<std::int64_t>;

Sizes strides_of(const CallTensor& tensor) {
  return tensor.strides.empty() ? contiguous_strides(tensor.sizes) : tensor.strides;
}

bool is_contiguous(const CallTensor& tensor) {
  if (tensor.strides.empty() || tensor.numel() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

// Returns the strides of a view with other sizes, or nothing if a copy is needed.
std::optional<Sizes> strides_as(const CallTensor& from, const Sizes& to) {
  if (from.numel() == 0) return contiguous_strides(to);
  const Sizes strides = strides_of(from);
  Sizes result(to.size());
  std::size_t next = to.size();  // strides from `next` on are known
  std::int64_t base = strides.empty() ? 1 : strides.back();
  std::int64_t elements = 1, placed = 1;
  for (std::size_t i = from.sizes.size(); i-- > 0;) {
    elements *= from.sizes[i];
    const bool ends =
        i == 0 || (from.sizes[i - 1] != 1 && strides[i - 1] != saturating_multiply(elements, base));
    if (!ends) continue;
    while (next > 0 && (placed < elements || to[next - 1] == 1)) {
      --next;
      result[next] = saturating_multiply(placed, base);
      placed = saturating_multiply(placed, std::max<std::int64_t>(0, to[next]));
    }
    if (placed != elements) return std::nullopt;
    if (i > 0) {
      base = strides[i - 1];
      elements = placed = 1;
    }
  }
  while (next > 0) result[--next] = base;
  return result;
}

std::size_t axis_of(std::int64_t dimension, std::size_t count) {
  const std::int64_t axis =
      dimension < 0 ? dimension + static_cast<std::int64_t>(count) : dimension;
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(axis, 0, std::max<std::int64_t>(0, std::int64_t(count) - 1)));
}

std::int64_t steps(const OperatorCall& call) {
  return std::clamp<std::int64_t>(call.integer("step", 1), 1, std::int64_t{1} << 12);
}

enum class Way {
  kSizes,  // by the result's sizes: view, reshape
  kSame,   // unchanged: alias, detach
  kTranspose,
  kPermute,
  kMove,
  kUnsqueeze,
  kSqueeze,
  kSelect,
  kSlice,
  kExpand,
  kUnfold,
  kGiven,  // strides are an argument
  kDiagonal,
  kBroadcast,
};

struct View {
  std::string_view name;
  Way way;
  std::string_view first = "", second = "";  // names of dimension arguments
  bool may_copy = false;                     // copies if a view is impossible
};

constexpr std::array kViews = {
    View{"view", Way::kSizes},
    View{"view_as", Way::kSizes},
    View{"_unsafe_view", Way::kSizes},
    View{"reshape", Way::kSizes, "", "", true},
    View{"reshape_as", Way::kSizes, "", "", true},
    View{"flatten", Way::kSizes, "", "", true},
    View{"unflatten", Way::kSizes},
    View{"alias", Way::kSame},
    View{"detach", Way::kSame},
    View{"lift_fresh", Way::kSame},
    View{"transpose", Way::kTranspose, "dim0", "dim1"},
    View{"swapaxes", Way::kTranspose, "axis0", "axis1"},
    View{"swapdims", Way::kTranspose, "dim0", "dim1"},
    View{"t", Way::kTranspose},
    View{"numpy_T", Way::kPermute},
    View{"mT", Way::kTranspose},
    View{"permute", Way::kPermute, "dims"},
    View{"movedim", Way::kMove, "source", "destination"},
    View{"moveaxis", Way::kMove, "source", "destination"},
    View{"unsqueeze", Way::kUnsqueeze, "dim"},
    View{"squeeze", Way::kSqueeze, "dim"},
    View{"select", Way::kSelect, "dim"},
    View{"unbind", Way::kSelect, "dim"},
    View{"slice", Way::kSlice, "dim"},
    View{"narrow", Way::kSlice, "dim"},
    View{"split", Way::kSlice, "dim"},
    View{"split_with_sizes", Way::kSlice, "dim"},
    View{"chunk", Way::kSlice, "dim"},
    View{"tensor_split", Way::kSlice, "dim"},
    View{"expand", Way::kExpand},
    View{"expand_as", Way::kExpand},
    View{"broadcast_to", Way::kExpand},
    View{"unfold", Way::kUnfold, "dimension"},
    View{"as_strided", Way::kGiven},
    View{"diagonal", Way::kDiagonal, "dim1", "dim2"},
    View{"broadcast_tensors", Way::kBroadcast},
    View{"meshgrid", Way::kBroadcast},
};

const View* view_of(std::string_view name) {
  const auto* const found =
      std::find_if(kViews.begin(), kViews.end(), [&](const View& v) { return v.name == name; });
  return found == kViews.end() ? nullptr : found;
}

// Whether a cast or copy returns its argument unchanged.
bool returns_argument(const OperatorCall& call, std::string_view name, const CallTensor& self) {
  const bool same_type = call.results.front().dtype == self.dtype;
  if (name == "to" || name == "type_as") return same_type && !call.flag("copy", false);
  if (name == "float") return same_type;
  if (name == "contiguous")
    return is_contiguous(self) &&
           (call.text("memory_format").empty() || call.text("memory_format") == "contiguous");
  if (name == "dropout" || name == "feature_dropout" || name == "alpha_dropout")
    return call.real("p", 0.5) == 0 || !call.flag("train", true);
  return false;
}

std::optional<Sizes> strides_of_view(const View& view, const OperatorCall& call,
                                     const CallTensor& self, const CallTensor& result) {
  const Sizes from = strides_of(self);
  const std::size_t count = from.size();
  Sizes strides = from;
  switch (view.way) {
    case Way::kSame:
      return strides;
    case Way::kSizes:
      return strides_as(self, result.sizes);
    case Way::kTranspose: {
      if (count < 2) return strides;
      const bool last = view.first.empty();
      std::swap(strides[axis_of(last ? -2 : call.integer(view.first, 0), count)],
                strides[axis_of(last ? -1 : call.integer(view.second, 1), count)]);
      return strides;
    }
    case Way::kPermute: {
      const Sizes dims = call.integers("dims");
      for (std::size_t i = 0; i < count; ++i)
        strides[i] = from[dims.size() == count ? axis_of(dims[i], count) : count - 1 - i];
      return strides;
    }
    case Way::kMove: {
      Sizes source = call.integers(view.first), to = call.integers(view.second);
      if (source.size() != to.size()) return std::nullopt;
      Sizes order(count, -1);
      std::vector<bool> used(count, false);
      for (std::size_t i = 0; i < source.size(); ++i) {
        order[axis_of(to[i], count)] = static_cast<std::int64_t>(axis_of(source[i], count));
        used[axis_of(source[i], count)] = true;
      }
      std::size_t next = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (order[i] < 0) {
          while (next < count && used[next]) ++next;
          order[i] = static_cast<std::int64_t>(next++);
        }
        strides[i] = from[axis_of(order[i], count)];
      }
      return strides;
    }
    case Way::kUnsqueeze: {
      const std::size_t axis = axis_of(call.integer("dim", 0), count + 1);
      const std::int64_t stride =
          axis < count ? saturating_multiply(from[axis], self.sizes[axis]) : 1;
      strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(axis), stride);
      return strides;
    }
    case Way::kSqueeze: {
      const Sizes dims = call.integers("dim");
      strides.clear();
      for (std::size_t i = 0; i < count; ++i) {
        const bool named = dims.empty() || std::any_of(dims.begin(), dims.end(), [&](auto dim) {
                             return axis_of(dim, count) == i;
                           });
        if (self.sizes[i] != 1 || !named) strides.push_back(from[i]);
      }
      return strides;
    }
    case Way::kSelect:
      if (count > 0)
        strides.erase(strides.begin() +
                      static_cast<std::ptrdiff_t>(axis_of(call.integer("dim", 0), count)));
      return strides;
    case Way::kSlice:
      if (count > 0) {
        std::int64_t& stride = strides[axis_of(call.integer("dim", 0), count)];
        stride = saturating_multiply(stride, steps(call));
      }
      return strides;
    case Way::kExpand:
    case Way::kBroadcast: {
      if (view.name == "meshgrid") {
        strides.assign(result.sizes.size(), 0);
        const auto& all = call.tensors.front().second;
        const std::size_t i = static_cast<std::size_t>(&self - all.data());
        if (i < strides.size() && count == 1) strides[i] = from[0];
        return strides;
      }
      if (count > result.sizes.size()) return std::nullopt;
      const std::size_t added = result.sizes.size() - count;
      strides.assign(result.sizes.size(), 0);
      for (std::size_t i = 0; i < count; ++i)
        if (self.sizes[i] == result.sizes[i + added]) strides[i + added] = from[i];
      // The stride of a new dimension of size 1 does not matter.
      for (std::size_t i = added; i-- > 0;)
        if (result.sizes[i] == 1 && i + 1 < strides.size())
          strides[i] = saturating_multiply(strides[i + 1], result.sizes[i + 1]);
      return strides;
    }
    case Way::kUnfold: {
      if (count == 0) return std::nullopt;
      const std::size_t axis = axis_of(call.integer("dimension", 0), count);
      strides.push_back(from[axis]);
      strides[axis] = saturating_multiply(strides[axis], steps(call));
      return strides;
    }
    case Way::kGiven:
      strides = call.integers("stride");
      return strides.size() == result.sizes.size() ? std::optional(strides) : std::nullopt;
    case Way::kDiagonal: {
      if (count < 2) return std::nullopt;
      const std::size_t a = axis_of(call.integer("dim1", 0), count);
      const std::size_t b = axis_of(call.integer("dim2", 1), count);
      strides.clear();
      for (std::size_t i = 0; i < count; ++i)
        if (i != a && i != b) strides.push_back(from[i]);
      strides.push_back(saturating_add(from[a], from[b]));
      return strides;
    }
  }
  return std::nullopt;
}

// Elementwise results have the layout of their operands. Two dimensions are ordered by the first
// operand that is not broadcast there.
Sizes strides_by_elements(const OperatorCall& call, const CallTensor& result) {
  struct Operand {
    Sizes strides;
  };
  const std::size_t count = result.sizes.size();
  std::vector<Sizes> operands;
  bool all_contiguous = true;
  for (const auto& [argument, tensors] : call.tensors)
    for (const CallTensor& tensor : tensors) {
      if (tensor.sizes.size() > count) continue;
      const std::size_t added = count - tensor.sizes.size();
      const Sizes from = strides_of(tensor);
      if (from.size() != tensor.sizes.size()) continue;
      Sizes strides(count, 0);
      for (std::size_t i = 0; i < from.size(); ++i)
        if (tensor.sizes[i] == result.sizes[i + added]) strides[i + added] = from[i];
      all_contiguous &= tensor.sizes == result.sizes && is_contiguous(tensor);
      operands.push_back(std::move(strides));
    }
  if (all_contiguous || count < 2) return contiguous_strides(result.sizes);
  const auto compare = [&](std::size_t a, std::size_t b) {
    for (const Sizes& strides : operands) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
      if (result.sizes[a] > result.sizes[b]) return 1;
    }
    return 0;
  };
  std::vector<std::size_t> order(count);  // smallest stride first
  for (std::size_t i = 0; i < count; ++i) order[i] = count - 1 - i;
  for (std::size_t i = 1; i < count; ++i) {
    std::size_t at = i;
    for (std::size_t before = i; before-- > 0;) {
      const int order_of = compare(order[before], order[at]);
      if (order_of > 0) {
        std::swap(order[before], order[at]);
        at = before;
      } else if (order_of < 0) {
        break;
      }
    }
  }
  Sizes strides(count);
  std::int64_t stride = 1;
  for (const std::size_t axis : order) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(1, result.sizes[axis]);
  }
  return strides;
}

Sizes strides_of_new(const OperatorCall& call, std::string_view name, const CallTensor& result) {
  if (name == "scaled_dot_product_attention" && is_blockwise_attention(call)) {
    OperatorCall of_queries;
    of_queries.tensors.push_back({"query", {*call.tensor("query")}});
    return strides_by_elements(of_queries, result);
  }
  if (name == "einsum") return einsum_strides(call);
  const bool follows = keeps_layout(name) && call.text("memory_format") != "contiguous";
  return follows ? strides_by_elements(call, result) : contiguous_strides(result.sizes);
}

const CallTensor* first_tensor(const OperatorCall& call) {
  for (const auto& [argument, tensors] : call.tensors)
    if (!tensors.empty()) return &tensors.front();
  return nullptr;
}

// Under CPU autocast, matrix products return the autocast dtype, and some operators float32.
std::string type_of(const OperatorCall& call, const CallTensor& result, std::string_view name,
                    const Precision& precision) {
  if (!precision.casts() || !result.is_floating()) return result.dtype;
  if (is_autocast_product(name)) return precision.products;
  if (!call.text("dtype").empty() || name == "to") return result.dtype;
  if (is_autocast_float(name)) return "float32";
  std::string widest;
  for (const auto& [argument, tensors] : call.tensors)
    for (const CallTensor& tensor : tensors) {
      if (!tensor.is_floating()) continue;
      if (tensor.sizes.empty() && !widest.empty()) continue;
      if (widest.empty() || dtype_bytes(tensor.dtype) > dtype_bytes(widest)) widest = tensor.dtype;
    }
  return widest.empty() ? result.dtype : widest;
}

}  // namespace aten_views
}  // namespace

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes) {
  aten_views::Sizes strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(1, sizes[i]);
  return strides;
}

bool is_viewable(const CallTensor& tensor, const std::vector<std::int64_t>& sizes) {
  CallTensor other;
  other.sizes = sizes;
  return other.numel() == tensor.numel() && aten_views::strides_as(tensor, sizes).has_value();
}

const CallTensor* viewed_argument(const OperatorCall& call, std::size_t result) {
  const CallTensor* self = aten_views::first_tensor(call);
  if (!self || result >= call.results.size()) return nullptr;
  const std::string_view name = operator_name(call.target);
  if (is_in_place(call.target) || aten_views::returns_argument(call, name, *self)) return self;
  const aten_views::View* view = aten_views::view_of(name);
  if (!view) return nullptr;
  if (view->way == aten_views::Way::kBroadcast) {
    const auto& all = call.tensors.front().second;
    return result < all.size() ? &all[result] : nullptr;
  }
  if (view->may_copy && !aten_views::strides_as(*self, call.results[result].sizes)) return nullptr;
  return self;
}

void settle_results(OperatorCall& call, const Precision& precision) {
  check_sizes(call);
  const std::string_view name = operator_name(call.target);
  bool is_free = true, is_of_weight = true;
  std::string weight;
  for (const auto& [argument, tensors] : call.tensors)
    for (const CallTensor& tensor : tensors) {
      is_of_weight &= !tensor.weight.empty();
      if (weight.empty()) weight = tensor.weight;
      is_free &= tensor.is_free || (!tensor.is_floating() && tensor.weight.empty());
    }
  if (weight.empty() || !is_of_weight) weight.clear();
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    CallTensor& result = call.results[i];
    result.dtype = aten_views::type_of(call, result, name, precision);
    result.is_free = is_free || call.without_gradient || name == "detach";
    result.weight = result.is_free ? "" : weight;
    const CallTensor* const viewed = viewed_argument(call, i);
    if (viewed) {
      const aten_views::View* view = aten_views::view_of(name);
      std::optional<aten_views::Sizes> strides =
          view ? aten_views::strides_of_view(*view, call, *viewed, result)
               : aten_views::strides_of(*viewed);
      const bool fits = strides && strides->size() == result.sizes.size();
      result.strides = fits ? *strides : contiguous_strides(result.sizes);
      result.storage_bytes = static_cast<std::int64_t>(viewed->bytes());
      result.name = viewed->name;
      result.is_made = viewed->is_made;
      if (viewed->is_free && is_in_place(call.target)) result.is_free = is_free;
      continue;
    }
    result.is_made = !result.weight.empty();
    result.storage_bytes = -1;
    result.strides = aten_views::strides_of_new(call, name, result);
  }
}

}  // namespace sluice::detail
