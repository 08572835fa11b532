// The slices into which tensors are divided: their sizes, and who owns which.
//
// A rank owns neighbouring slices that are one subtree of the tree over all of them (shard_tree.h):
// so its partial sum is one tensor.
// Does not own: the elements (layer/slice.h), sums (src/comm). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/options.h"

namespace sluice::detail {

// Elements [begin, end) along a dimension.
struct Cut {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Cut&, const Cut&) = default;
};

// The part of a section of this length that the slices have.
Cut cut_of(std::int64_t length, const SliceRange& slices);

// The parts of each section that the slices have, along split.dim of the whole. Throws
// Error(kUsage) naming `name` for a dimension that the shape does not have, for sections that are
// not all of it, and for a range of slices that is none.
std::vector<Cut> cuts_of(const std::vector<std::int64_t>& shape, const ParameterSplit& split,
                         const SliceRange& slices, const std::string& name);

// The shape of what the slices have; the same errors.
std::vector<std::int64_t> sliced_shape(const std::vector<std::int64_t>& shape,
                                       const ParameterSplit& split, const SliceRange& slices,
                                       const std::string& name);

// True if each of `degree` ranks has one subtree of the slices: a power of two that divides them,
// or as many as there are. Precondition: both are above 0.
bool may_share(int degree, int num_slices);

// The slices of rank `coordinate` along the axis. Precondition: may_share().
SliceRange slices_of(int coordinate, const TensorParallel& options);

// Throws Error(kUsage), the option as its place, with the nearest that is possible: a degree or a
// number of slices out of range, a degree that may not share the slices.
void check_tensor_parallel(const TensorParallel& options);

// Throws Error(kUsage) unless the slices divide what must not be cut, with the nearest that do:
// "4 does not divide 6 WHAT", naming the degree where the slices are left to it.
void require_whole_units(const TensorParallel& options, std::int64_t units,
                         const std::string& what);

// The same, without sequence parallelism where rows of this length are not divided: the slices do
// not divide it, or one rank has all of them.
TensorParallel at_length(std::int64_t length, TensorParallel options);

// Elements of a parameter that a rank holds at most: those of the largest share of its slices.
std::int64_t most_held(const ParameterSpec& parameter, const TensorParallel& options);

// True if the ranks that share the layer have parts of it.
bool is_divided(const LayerInfo& layer);

// Throws Error(kUsage) for slices that would cut what is one in a layer of the model, with the
// layer.
void require_dividable(const ModelSpec& model, const TensorParallel& options);

}  // namespace sluice::detail
