// Sums over the slices of all ranks, in the tree of plan/shard_tree.h.
//
// Owns: how partial sums of a rank's own slices, then of the ranks, add up; what travels for that.
// Does not own: autograd (mappings.h). Invariants:
//  1. n tensors take n - 1 additions; one is returned as it is.
//  2. What was given is not written to.
// Thread-safety: as Group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// The sum of the terms, of which each half adds up by itself. Terms have one shape and dtype.
at::Tensor tree_sum(const std::vector<at::Tensor>& terms);

// The sum over all members of what each has of its own slices.
at::Tensor tree_all_reduce(const at::Tensor& own, const SliceGroup& tp);
// This member's rows of that sum: of a dimension that all slices share.
at::Tensor tree_reduce_scatter(const at::Tensor& own, std::int64_t dim, const SliceGroup& tp);
// The same, on their way.
Work<at::Tensor> start_tree_all_reduce(const at::Tensor& own, const SliceGroup& tp);
Work<at::Tensor> start_tree_reduce_scatter(const at::Tensor& own, std::int64_t dim,
                                           const SliceGroup& tp);
// The parts of all members along dim, degree above 1. Throws Error(kInternal), on each of them,
// where one is not what its slices have.
std::vector<at::Tensor> gather_parts(const at::Tensor& part, std::int64_t dim,
                                     const SliceGroup& tp);
// The same, one behind the other.
at::Tensor all_gather(const at::Tensor& part, std::int64_t dim, const SliceGroup& tp);
// The largest of all members, element by element.
at::Tensor all_reduce_max(const at::Tensor& own, const SliceGroup& tp);

// The part of a dimension of `length` that each of the slices has.
std::vector<std::int64_t> slice_sizes(std::int64_t length, const SliceRange& slices);
// A dimension counted from the front. Throws Error(kUsage) for one that x does not have.
std::int64_t dimension_of(std::int64_t dim, const at::Tensor& x);
// The dimension of rows: tp.sequence_dim(). Throws Error(kUsage) where it is the last one of x, or
// none.
std::int64_t dimension_of_rows(const at::Tensor& x, const SliceGroup& tp);
// x.narrow(dim, range).
at::Tensor part_of(const at::Tensor& x, std::int64_t dim, const IndexRange& range);

}  // namespace sluice::detail
