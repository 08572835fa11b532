// Divides tensors into slices, the smallest units of tensor parallelism. A rank's slices are
// adjacent and form one subtree of shard_tree.h, so their partial sum is one tensor.
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

Cut cut_of(std::int64_t length, const SliceRange& slices);

// A parameter's sections (such as fused Q, K and V) are each divided into slices. Returns where
// `slices` are in each section. Throws Error(kUsage) naming `name` if they do not fit the shape.
std::vector<Cut> cuts_of(const std::vector<std::int64_t>& shape, const ParameterSplit& split,
                         const SliceRange& slices, const std::string& name);

std::vector<std::int64_t> sliced_shape(const std::vector<std::int64_t>& shape,
                                       const ParameterSplit& split, const SliceRange& slices,
                                       const std::string& name);

// Partial results of slices are added in a balanced binary tree. True if each of `degree` ranks can
// hold the slices below one node of the tree: the degree equals num_slices, or is a power of two
// that divides it. Precondition: both are positive.
bool may_share(int degree, int num_slices);

// Precondition: may_share().
SliceRange slices_of(int coordinate, const TensorParallel& options);

// Throws Error(kUsage) unless degree and slices are in range and may_share() is true.
void check_tensor_parallel(const TensorParallel& options);

// Throws Error(kUsage) unless the number of slices divides `units`, such as the number of heads,
// which must stay whole.
void require_whole_units(const TensorParallel& options, std::int64_t units,
                         const std::string& what);

// Switches sequence parallelism off if the degree is 1 or the sequence length is no multiple of the
// slices.
TensorParallel at_length(std::int64_t length, TensorParallel options);

std::int64_t most_held(const ParameterSpec& parameter, const TensorParallel& options);

bool is_divided(const LayerInfo& layer);

void require_dividable(const ModelSpec& model, const TensorParallel& options);

}  // namespace sluice::detail
