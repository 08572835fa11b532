// Sums over the slices of all tensor-parallel ranks as a tree (plan/shard_tree.h): first over a
// rank's slices, then over ranks. Inputs are not written to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// Adds terms of one shape and dtype as a balanced tree. Returns a single term itself.
at::Tensor tree_sum(const std::vector<at::Tensor>& terms);

at::Tensor tree_all_reduce(const at::Tensor& own, const SliceGroup& tp);
// Returns this rank's rows of the sum, along `dim`, which all slices share.
at::Tensor tree_reduce_scatter(const at::Tensor& own, std::int64_t dim, const SliceGroup& tp);
// Start tree_all_reduce() and tree_reduce_scatter() without blocking.
Work<at::Tensor> start_tree_all_reduce(const at::Tensor& own, const SliceGroup& tp);
Work<at::Tensor> start_tree_reduce_scatter(const at::Tensor& own, std::int64_t dim,
                                           const SliceGroup& tp);
// Returns all ranks' parts along `dim`, for a degree above 1. Throws Error(kInternal) on all ranks
// if a part does not fit its slices.
std::vector<at::Tensor> gather_parts(const at::Tensor& part, std::int64_t dim,
                                     const SliceGroup& tp);
at::Tensor all_gather(const at::Tensor& part, std::int64_t dim, const SliceGroup& tp);
at::Tensor all_reduce_max(const at::Tensor& own, const SliceGroup& tp);

std::vector<std::int64_t> slice_sizes(std::int64_t length, const SliceRange& slices);
// Returns `dim` as a non-negative index. Throws Error(kUsage) if x does not have it.
std::int64_t dimension_of(std::int64_t dim, const at::Tensor& x);
// Returns tp.sequence_dim() as a non-negative index. Throws Error(kUsage) if x does not have it, or
// has it last.
std::int64_t dimension_of_rows(const at::Tensor& x, const SliceGroup& tp);
at::Tensor part_of(const at::Tensor& x, std::int64_t dim, const IndexRange& range);

}  // namespace sluice::detail
