// Divides tensors into slices for tensor parallelism, and assigns the slices to ranks.
//
// The slices of a rank are adjacent and form one subtree of shard_tree.h, so its partial sum is one
// tensor.
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

// The part of a section of the given length that belongs to `slices`.
Cut cut_of(std::int64_t length, const SliceRange& slices);

// Like cut_of(), for each section along split.dim, with offsets into the whole tensor. Throws
// Error(kUsage) naming `name` if the dimension does not exist, if the sections do not add up to its
// size, or if the range of slices is invalid.
std::vector<Cut> cuts_of(const std::vector<std::int64_t>& shape, const ParameterSplit& split,
                         const SliceRange& slices, const std::string& name);

// The shape of the part that belongs to `slices`. Throws the same errors.
std::vector<std::int64_t> sliced_shape(const std::vector<std::int64_t>& shape,
                                       const ParameterSplit& split, const SliceRange& slices,
                                       const std::string& name);

// True if every rank's slices form one subtree. The degree must be a power of two that divides
// num_slices, or equal num_slices. Precondition: both are positive.
bool may_share(int degree, int num_slices);

// The slices of the rank at `coordinate` along tp. Precondition: may_share().
SliceRange slices_of(int coordinate, const TensorParallel& options);

// Throws Error(kUsage) if the degree or the number of slices is out of range, or if they fail
// may_share(). The error has the option as its place and suggests the nearest valid values.
void check_tensor_parallel(const TensorParallel& options);

// Throws Error(kUsage) unless the number of slices divides `units`, such as heads that must stay
// whole. The error suggests the nearest valid numbers. It names the degree if the slices follow
// from the degree.
void require_whole_units(const TensorParallel& options, std::int64_t units,
                         const std::string& what);

// Returns the options without sequence parallelism if rows of this length cannot be divided: the
// number of slices does not divide the length, or the degree is 1.
TensorParallel at_length(std::int64_t length, TensorParallel options);

// The most elements of the parameter that any rank holds.
std::int64_t most_held(const ParameterSpec& parameter, const TensorParallel& options);

bool is_divided(const LayerInfo& layer);

// Throws Error(kUsage), naming the layer, if the slices would cut a unit that must stay whole.
void require_dividable(const ModelSpec& model, const TensorParallel& options);

}  // namespace sluice::detail
