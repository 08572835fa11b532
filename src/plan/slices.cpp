#include "plan/slices.h"

#include <algorithm>
#include <bit>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// No layer has this many heads.
constexpr int kMostSlices = 65536;

constexpr const char* kDegree = "`tensor_parallel.degree`";
constexpr const char* kSlices = "`tensor_parallel.slices`";

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

// Returns the nearest numbers that satisfy `fits`, as "2 or 4" or "8".
template <typename Fits>
std::string nearest(std::int64_t wanted, std::int64_t most, const Fits& fits) {
  std::int64_t below = wanted - 1, above = wanted + 1;
  while (below > 0 && !fits(below)) --below;
  while (above <= most && !fits(above)) ++above;
  std::string text;
  if (below > 0) text = std::to_string(below);
  if (above <= most) text += (text.empty() ? "" : " or ") + std::to_string(above);
  return text;
}

void require_range(const char* option, int value, int least) {
  if (value < least) {
    refuse(formatted("{} = {}", option, value), option,
           least == 0 ? "give 0 to use the degree, or more" : "give at least 1");
  }
  if (value > kMostSlices) {
    refuse(formatted("{} = {} is more than sluice supports", option, value), option,
           formatted("give at most {}", kMostSlices));
  }
}

}  // namespace

Cut cut_of(std::int64_t length, const SliceRange& slices) {
  const std::int64_t count = slices.count;
  return {length * slices.begin / count, length * slices.end / count};
}

std::vector<Cut> cuts_of(const std::vector<std::int64_t>& shape, const ParameterSplit& split,
                         const SliceRange& slices, const std::string& name) {
  const std::string where = "'" + name + "'";
  if (slices.begin < 0 || slices.end <= slices.begin || slices.count < slices.end) {
    refuse(formatted("slices {} to {} are not a range of {} slices", slices.begin, slices.end,
                     slices.count),
           where, "give a range that has at least one of the slices");
  }
  if (split.dim < 0 || split.dim >= static_cast<int>(shape.size())) {
    refuse(formatted("the parameter is divided along dimension {}, but its shape is {}", split.dim,
                     shape_text(shape)),
           where, "name a dimension of this shape");
  }
  const std::int64_t all = shape[static_cast<std::size_t>(split.dim)];
  const std::vector<std::int64_t> sections =
      split.sections.empty() ? std::vector<std::int64_t>{all} : split.sections;
  std::vector<Cut> cuts;
  std::int64_t begin = 0;
  for (const std::int64_t length : sections) {
    if (length < 0 || length > all - begin) break;
    const Cut cut = cut_of(length, slices);
    cuts.push_back({begin + cut.begin, begin + cut.end});
    begin += length;
  }
  if (cuts.size() != sections.size() || begin != all) {
    refuse(
        formatted("its sections do not add up to dimension {} of {}", split.dim, shape_text(shape)),
        where, "give lengths that add up to it");
  }
  return cuts;
}

std::vector<std::int64_t> sliced_shape(const std::vector<std::int64_t>& shape,
                                       const ParameterSplit& split, const SliceRange& slices,
                                       const std::string& name) {
  std::int64_t size = 0;
  for (const Cut& cut : cuts_of(shape, split, slices, name)) size += cut.size();
  std::vector<std::int64_t> sliced = shape;
  sliced[static_cast<std::size_t>(split.dim)] = size;
  return sliced;
}

bool may_share(int degree, int num_slices) {
  if (degree == num_slices) return true;
  return num_slices % degree == 0 && std::has_single_bit(static_cast<unsigned>(degree));
}

SliceRange slices_of(int coordinate, const TensorParallel& options) {
  const int count = options.num_slices(), each = count / options.degree;
  return {coordinate * each, (coordinate + 1) * each, count};
}

void check_tensor_parallel(const TensorParallel& options) {
  require_range(kDegree, options.degree, 1);
  require_range(kSlices, options.slices, 0);
  const int slices = options.num_slices();
  if (may_share(options.degree, slices)) return;
  refuse(
      formatted("{} = {} ranks cannot share {} = {}: each rank needs neighbouring slices that "
                "form a subtree of the sum",
                kDegree, options.degree, kSlices, slices),
      kDegree,
      "set the degree to the number of slices, or a power of two that divides it: the nearest is " +
          nearest(options.degree, slices, [&](std::int64_t degree) {
            return may_share(static_cast<int>(degree), slices);
          }));
}

void require_whole_units(const TensorParallel& options, std::int64_t units,
                         const std::string& what) {
  const int num_slices = options.num_slices();
  if (units == 0 || units % num_slices == 0) return;
  const char* const option = options.slices == 0 ? kDegree : kSlices;
  refuse(formatted("{} = {} does not divide {} {}", option, num_slices, units, what), option,
         "the nearest is " +
             nearest(num_slices, units, [&](std::int64_t slices) { return units % slices == 0; }));
}

TensorParallel at_length(std::int64_t length, TensorParallel options) {
  options.sequence &= options.degree > 1 && length % options.num_slices() == 0;
  return options;
}

std::int64_t most_held(const ParameterSpec& parameter, const TensorParallel& options) {
  if (!parameter.split || options.degree == 1) return parameter.numel();
  ParameterSpec held = parameter;
  std::int64_t most = 0;
  for (int share = 0; share < options.degree; ++share) {
    held.shape =
        sliced_shape(parameter.shape, *parameter.split, slices_of(share, options), parameter.name);
    most = std::max(most, held.numel());
  }
  return most;
}

bool is_divided(const LayerInfo& layer) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [](const ParameterSpec& parameter) { return parameter.split.has_value(); });
}

void require_dividable(const ModelSpec& model, const TensorParallel& options) {
  if (options.num_slices() == 1) return;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.split)
        require_whole_units(options, parameter.split->units,
                            "key-value heads of '" + layer.name + "'");
    }
  }
}

}  // namespace sluice::detail
