#include "parallel/divided_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "layer/call_place.h"
#include "layer/keyed_stream.h"
#include "layer/microbatch_lengths.h"
#include "parallel/divided_operators.h"
#include "parallel/pointwise_slices.h"
#include "parallel/shared_weights.h"
#include "parallel/tree_exchange.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using Arguments = std::vector<c10::IValue>;

at::Tensor tensor_of(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

bool is_one(const c10::IValue& value) { return value.toScalar().equal(1); }

[[noreturn]] void refuse_read(const std::string& name, std::string_view op,
                              const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = formatted("'{}' is divided, but is read by {}", name, op),
                                  .where = "parallelize_module",
                                  .remedy = remedy});
}

[[noreturn]] void refuse_dropout(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "parallelize_module, dropout", .remedy = remedy});
}

bool draws(const Arguments& in) {
  const double probability = in[1].toDouble();
  return in[2].toBool() && probability != 0 && probability != 1;
}

std::uint32_t version_of(const at::Tensor& x) {
  return x.is_inference() ? 0 : static_cast<std::uint32_t>(x._version());
}

}  // namespace

void DividedWeights::add(const at::Tensor& weight, DividedWeight divided) {
  weights_[weight.unsafeGetTensorImpl()] = {std::move(divided)};
}

void DividedWeights::add_whole(const at::Tensor& weight, std::string name) {
  whole_[weight.unsafeGetTensorImpl()] = std::move(name);
}

bool DividedWeights::has(const at::Tensor& weight) const {
  return weights_.contains(weight.unsafeGetTensorImpl());
}

DividedWeights::Entry* DividedWeights::find(const c10::IValue& value) {
  if (!value.isTensor()) return nullptr;
  const auto found = weights_.find(value.toTensor().unsafeGetTensorImpl());
  return found == weights_.end() ? nullptr : &found->second;
}

DividedWeights::Entry* DividedWeights::find_transpose(const c10::IValue& value) {
  const at::Tensor view = tensor_of(value);
  if (!view.defined() || !view.is_view() || view.dim() != 2) return nullptr;
  const at::Tensor weight(view._base());
  if (view.storage_offset() != weight.storage_offset() || weight.dim() != 2 ||
      view.size(0) != weight.size(1) || view.size(1) != weight.size(0) ||
      view.stride(0) != weight.stride(1) || view.stride(1) != weight.stride(0))
    return nullptr;
  return find(weight);
}

void DividedWeights::add_product(ParallelStyle style, std::int64_t length) {
  has_products_ = true;
  if (style == ParallelStyle::kColwise) opened_ = length;
  if (style == ParallelStyle::kRowwise) closed_ = length;
}

std::optional<std::int64_t> DividedWeights::begin_with(
    std::optional<std::int64_t> columns, std::shared_ptr<const DividedWeights> opener) {
  columns_before_ = columns;
  opener_ = std::move(opener);
  if (!has_products_) return columns;
  return closed_ == 0 ? opened_ : 0;
}

void DividedWeights::forget_input() {
  input_.reset();
  entered_.clear();
}

std::vector<at::Tensor> DividedWeights::run(
    const std::function<std::vector<at::Tensor>()>& forward) {
  for (auto& [impl, entry] : weights_) entry.read = false;
  columns_ = columns_before_.value_or(0);
  open_columns_.assign(columns_ > 0 ? 1 : 0, columns_);
  sizes_.clear();
  region_ = opener_ ? opener_->region_ : tp_;
  std::vector<at::Tensor> outputs;
  try {
    const OperatorReaderScope scope(this);
    outputs = forward();
  } catch (...) {
    forget_input();
    throw;
  }
  forget_input();
  for (const auto& [impl, entry] : weights_) {
    if (entry.read) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the forward has not read the divided '{}' by an operator that "
                                   "computes by slices",
                                   entry.divided.name),
                 .where = "parallelize_module",
                 .remedy = "read it by its module's forward (a norm's weight by at::layer_norm, "
                           "at::rms_norm or x * weight), or leave its module out of the table"});
  }
  return outputs;
}

// Returns the number of rows of the whole microbatch, 0 if unknown or x has no row dimension.
std::int64_t DividedWeights::rows_of_all(const at::Tensor& x) const {
  const MicrobatchLengths* const lengths = MicrobatchScope::current();
  const std::int64_t dim = tp_.sequence_dim();
  if (!lengths || dim < 0 || dim >= std::ssize(*lengths) || dim + 1 >= x.dim()) return 0;
  return (*lengths)[static_cast<std::size_t>(dim)];
}

SliceGroup DividedWeights::for_rows_of(const at::Tensor& x) const {
  const std::int64_t all = rows_of_all(x);
  const bool is_whole =
      tp_.degree() > 1 && tp_.sequence_parallel() && all > 0 && x.size(tp_.sequence_dim()) == all;
  return is_whole ? tp_.with_sequence(false) : tp_;
}

void DividedWeights::require_whole_rows(const at::Tensor& x, const at::Tensor& weight) const {
  if (tp_.degree() == 1 || !tp_.sequence_parallel() || !x.defined() || !weight.defined() ||
      !weight.requires_grad())
    return;
  const auto found = whole_.find(weight.unsafeGetTensorImpl());
  const std::int64_t all = rows_of_all(x);
  if (found == whole_.end() || all == 0 || x.size(tp_.sequence_dim()) * tp_.degree() != all) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("'{}' is not in the table, but is read with {} of {} rows: its "
                                 "gradient would lack the other rows",
                                 found->second, x.size(tp_.sequence_dim()), all),
               .where = "parallelize_module, sequence parallelism",
               .remedy = "give its module a style, as kSequence for a norm, or set "
                         "TensorParallel::sequence to false"});
}

const std::vector<at::Tensor>& DividedWeights::entered(const at::Tensor& x) {
  if (!input_.is_same(x) || input_version_ != version_of(x)) {
    forget_input();
    region_ = for_rows_of(x);
    entered_ = enter(x, region_);
    input_ = x;
    input_version_ = version_of(x);
  }
  return entered_;
}

at::Tensor DividedWeights::linear(const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& bias, const DividedWeight& divided) {
  const std::vector<std::int64_t> sections = {divided.length};
  const WeightPlace place(weight);
  if (divided.style == ParallelStyle::kRowwise) {
    columns_ = 0;
    open_columns_.clear();
    return sum_of_products(own_slices(x, divided.length, tp_), {weight, 1, divided.length}, bias,
                           region_);
  }
  at::Tensor own = side_by_side(
      products(entered(x), weight_slices(weight, 0, sections, tp_),
               bias.defined() ? weight_slices(bias, 0, sections, tp_) : std::vector<at::Tensor>()),
      sections, tp_);
  if (divided.style == ParallelStyle::kColwiseGather) return gather_from(own, tp_);
  columns_ = divided.length;
  open_columns_.push_back(columns_);
  sizes_ = own.sizes().vec();
  return own;
}

at::Tensor DividedWeights::product(const std::string& op, const Arguments& in) {
  const bool is_linear = op == "aten::linear", adds = op == "aten::addmm";
  const std::size_t x = adds ? 1 : 0;
  Entry* const weight = is_linear ? find(in[1]) : find_transpose(in[x + 1]);
  if (!weight) {
    const at::Tensor read = tensor_of(in[x + 1]);
    require_whole_rows(tensor_of(in[x]),
                       read.is_view() && !is_linear ? at::Tensor(read._base()) : read);
    return {};
  }
  if (weight->divided.style == ParallelStyle::kSequence)
    refuse_read(weight->divided.name, op, "give its module the style kColwise or kRowwise");
  if (adds && !(is_one(in[3]) && is_one(in[4])))
    refuse_read(weight->divided.name, op, "read it by its module's forward");
  const at::Tensor bias = is_linear ? tensor_of(in[2]) : adds ? tensor_of(in[0]) : at::Tensor();
  if (Entry* const of_bias = bias.defined() ? find(bias) : nullptr) of_bias->read = true;
  weight->read = true;
  const at::Tensor read = in[x + 1].toTensor();
  return linear(tensor_of(in[x]), is_linear ? read : at::Tensor(read._base()), bias,
                weight->divided);
}

at::Tensor DividedWeights::embedding(const Arguments& in) {
  Entry* const weight = find(in[0]);
  if (!weight) return {};
  if (weight->divided.style != ParallelStyle::kRowwise)
    refuse_read(weight->divided.name, "at::embedding", "give its module the style kRowwise");
  weight->read = true;
  return divided_embedding(in[0].toTensor(), in[1].toTensor(), weight->divided.length,
                           in[2].toInt(), tp_);
}

at::Tensor DividedWeights::norm(const std::string& op, const Arguments& in) {
  const bool is_layer_norm = op == "aten::layer_norm";
  Entry* const weight = find(in[2]);
  Entry* const bias = is_layer_norm ? find(in[3]) : nullptr;
  if (!weight && !bias) {
    require_whole_rows(in[0].toTensor(), tensor_of(in[2]));
    return {};
  }
  const SliceGroup tp = for_rows_of(in[0].toTensor());
  for (Entry* const entry : {weight, bias})
    if (entry) entry->read = true;
  const std::vector<std::int64_t> shape = in[1].toIntVector();
  if (is_layer_norm) {
    return layer_norm_shared(in[0].toTensor(), shape, tensor_of(in[2]), tensor_of(in[3]),
                             in[4].toDouble(), tp);
  }
  return rms_norm_shared(in[0].toTensor(), shape, tensor_of(in[2]),
                         in[3].isNone() ? std::nullopt : std::optional(in[3].toDouble()), tp);
}

// Handles x += bias, which torch::nn::Linear calls.
at::Tensor DividedWeights::add_in_place(const Arguments& in) {
  Entry* const bias = find(in[1]);
  if (!bias || !is_one(in[2])) return {};
  bias->read = true;
  const at::Tensor x = in[0].toTensor(), added = in[1].toTensor();
  const DividedWeight& divided = bias->divided;
  if (divided.style == ParallelStyle::kRowwise || divided.style == ParallelStyle::kSequence)
    return add_shared(x, added, for_rows_of(x), /*in_place=*/true);
  return add_columns_(x, added, divided.length, divided.style == ParallelStyle::kColwiseGather,
                      tp_);
}

// Handles x * weight and x + bias, in either order.
at::Tensor DividedWeights::by_element(const std::string& op, const Arguments& in) {
  Entry* const left = find(in[0]);
  Entry* const right = find(in[1]);
  if (!left == !right) return {};
  Entry& weight = left ? *left : *right;
  const at::Tensor rows = tensor_of(in[left ? 1 : 0]), shared = tensor_of(in[left ? 0 : 1]);
  // Do not mark the weight as read. Otherwise a later unsupported read, such as weight + 1, would
  // go unnoticed.
  if (weight.divided.style != ParallelStyle::kSequence || rows.dim() < 2) return {};
  const bool adds = op == "aten::add";
  if (adds && !is_one(in[2])) return {};
  weight.read = true;
  const SliceGroup tp = for_rows_of(rows);
  return adds ? add_shared(rows, shared, tp) : multiply_shared(rows, shared, tp);
}

// Runs a pointwise operator once per slice between a column-parallel product (weight divided by
// outputs) and the next row-parallel product (by inputs).
at::Tensor DividedWeights::pointwise(const c10::OperatorHandle& op, const Arguments& in) {
  if (tp_.slices().count == 1) return {};
  for (const c10::IValue& x : in) {
    for (const c10::IValue& weight : in) require_whole_rows(tensor_of(x), tensor_of(weight));
  }
  if (open_columns_.empty()) return {};
  const std::vector<std::int64_t> sizes = pointwise_sizes(op, in);
  const std::optional<std::int64_t> heads = dimension_of_heads(sizes);
  if (heads && sizes[static_cast<std::size_t>(*heads)] % tp_.slices().size() == 0) {
    const std::int64_t all_heads = sizes[static_cast<std::size_t>(*heads)] * tp_.degree();
    return run_by_slices(op, in, *heads, slice_sizes(all_heads, tp_.slices()));
  }
  const auto columns = std::find_if(
      open_columns_.rbegin(), open_columns_.rend(),
      [&](std::int64_t all) { return !sizes.empty() && sizes.back() == tp_.range(all).size; });
  if (columns == open_columns_.rend()) return {};
  return run_by_slices(op, in, std::ssize(sizes) - 1, slice_sizes(*columns, tp_.slices()));
}

// Runs attention once per slice, with contiguous heads and a separate dropout mask.
at::Tensor DividedWeights::attention(const c10::OperatorHandle& op, const Arguments& in) {
  const std::int64_t num_slices = tp_.slices().size();
  const at::Tensor q = in[0].toTensor(), k = in[1].toTensor(), mask = tensor_of(in[3]);
  const bool drops = in[4].toDouble() > 0, has_heads = columns_ > 0 && q.dim() == 4;
  if (drops && !has_heads && (columns_ > 0 || tp_.sequence_parallel())) {
    refuse_dropout("at::scaled_dot_product_attention drops weights of heads that no slice has",
                   "give q, k and v projections the style kColwise, and heads as dimension 1 of 4");
  }
  if (!has_heads || (num_slices == 1 && !drops)) return {};
  if (q.size(1) % num_slices != 0 || k.size(1) % num_slices != 0) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("{} and {} heads of this rank cannot be divided into {} slices",
                                   q.size(1), k.size(1), num_slices),
                 .where = "parallelize_module, at::scaled_dot_product_attention",
                 .remedy = "give a number of slices that divides the key-value heads"});
  }
  const bool mask_has_heads = mask.defined() && mask.dim() == 4 && mask.size(1) != 1;
  std::optional<DividedDraw> draw;
  if (drops) draw.emplace();
  std::vector<at::Tensor> parts;
  for (std::int64_t slice = 0; slice < num_slices; ++slice) {
    const auto part = [&](const c10::IValue& all) {
      return all.toTensor().chunk(num_slices, 1)[static_cast<std::size_t>(slice)];
    };
    Arguments of_call = in;
    for (std::size_t i = 0; i < 3; ++i) of_call[i] = part(in[i]).clone();
    if (mask_has_heads) of_call[3] = part(in[3]);
    const auto attended = [&] { return call_operator(op, std::move(of_call)); };
    parts.push_back(draw ? draw->of_slice(tp_.slices().begin + slice, attended) : attended());
  }
  return concatenated(parts, 1);
}

// Returns the dimension of heads, next to the rows. Returns nothing unless exactly one dimension
// fits a column-parallel product without row-parallel product so far.
std::optional<std::int64_t> DividedWeights::dimension_of_heads(
    const std::vector<std::int64_t>& sizes) const {
  const std::int64_t dim = std::ssize(sizes), num_sizes = std::ssize(sizes_);
  const std::int64_t rows = tp_.sequence_dim() + (tp_.sequence_dim() < 0 ? num_sizes : 0);
  if (dim != num_sizes + 1 || rows < 0 || rows + 1 >= num_sizes) return std::nullopt;
  const std::vector<std::int64_t> before_columns(sizes_.begin(), sizes_.end() - 1);
  std::vector<std::int64_t> others = before_columns;
  others.erase(others.begin() + rows);
  const auto begins_with = [&](const std::vector<std::int64_t>& begin) {
    return std::equal(begin.begin(), begin.end(), sizes.begin());
  };
  const auto from_end = [&](std::int64_t i) { return sizes[static_cast<std::size_t>(dim - i)]; };
  const bool heads_then_rows =
      begins_with(others) && from_end(2) == before_columns[static_cast<std::size_t>(rows)];
  const bool rows_then_heads =
      begins_with(before_columns) &&
      std::any_of(open_columns_.begin(), open_columns_.end(), [&](std::int64_t columns) {
        return from_end(2) * from_end(1) == tp_.range(columns).size;
      });
  if (heads_then_rows == rows_then_heads) return std::nullopt;
  return heads_then_rows ? dim - 3 : dim - 2;
}

// Finds the dimension of x that slices divide after a column-parallel product: columns, or heads
// next to the rows.
std::int64_t DividedWeights::dimension_of_slices(const at::Tensor& x) const {
  if (x.sizes() == sizes_) return x.dim() - 1;
  if (sizes_.empty() && x.dim() > 0 && x.size(-1) == tp_.range(columns_).size) return x.dim() - 1;
  const std::int64_t num_slices = tp_.slices().size();
  const std::optional<std::int64_t> heads = dimension_of_heads(x.sizes().vec());
  if (!heads || x.size(*heads) % num_slices != 0) {
    refuse_dropout(formatted("a dropout of {} cannot be assigned to this rank's {} slices: the "
                             "product by columns before it gave {}",
                             shape_text(x.sizes().vec()), num_slices,
                             sizes_.empty() ? counted(tp_.range(columns_).size, "column")
                                            : shape_text(sizes_)),
                   "apply dropout to that shape, to [.., heads, rows, keys] or "
                   "[.., rows, heads, channels], or use at::scaled_dot_product_attention");
  }
  return *heads;
}

at::Tensor DividedWeights::dropout(const Arguments& in, bool in_place) {
  at::Tensor x = in[0].toTensor();
  if (!draws(in)) return {};
  if (!columns_before_ && !has_products_) {
    refuse_dropout(
        "dropout in a stage without a divided product: it is not known whether the columns are "
        "divided",
        "cut the pipeline elsewhere");
  }
  at::Tensor mask;
  if (columns_ > 0) {
    const std::int64_t dim = dimension_of_slices(x);
    const std::int64_t length = dim == x.dim() - 1 ? columns_ : x.size(dim) * tp_.degree();
    mask = dropout_mask(x, in[1].toDouble(), dim, slice_sizes(length, tp_.slices()),
                        tp_.slices().begin);
  } else if (!tp_.sequence_parallel() && dimension_of(tp_.sequence_dim(), x) + 1 >= x.dim()) {
    return {};  // x has no rows, so it is equal on all ranks
  } else {
    mask = dropout_mask_of_rows(x, in[1].toDouble(), for_rows_of(x));
  }
  return in_place ? x.mul_(mask) : x * mask;
}

bool DividedWeights::run(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const Arguments in(stack.end() - count, stack.end());
  at::Tensor result;
  if (name == "aten::scaled_dot_product_attention") {
    result = attention(op, in);
  } else if (name == "aten::dropout" || name == "aten::dropout_") {
    result = dropout(in, name.back() == '_');
  } else if (name.find("dropout") != std::string::npos) {
    if (draws(in))
      refuse_dropout(name +
                         " in a layer with divided weights: its numbers would depend on how rows "
                         "and columns lie on ranks",
                     "use torch::nn::Dropout, or set its probability to 0");
  } else if (name == "aten::embedding") {
    result = embedding(in);
  } else if (name == "aten::layer_norm" || name == "aten::rms_norm") {
    result = norm(name, in);
  } else if (name == "aten::add_") {
    result = add_in_place(in);
  } else if (name == "aten::add" || name == "aten::mul") {
    result = by_element(name, in);
  } else if (name == "aten::linear" || name == "aten::matmul" || name == "aten::mm" ||
             name == "aten::addmm") {
    result = product(name, in);
  }
  if (!result.defined() && is_pointwise(op)) result = pointwise(op, in);
  if (!result.defined()) return false;
  stack.erase(stack.end() - count, stack.end());
  stack.emplace_back(std::move(result));
  return true;
}

}  // namespace sluice::detail
