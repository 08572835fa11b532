// Runs a pointwise operator once for each slice of this rank.
//
// LibTorch computes the last elements of a row with other instructions than those before, so bits
// may depend on how many elements a call has and how they lie in memory. Here every slice is a call
// of its own, in the memory layout that it has on a rank with one slice, and so is its gradient.
//
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

namespace sluice::detail {

// The sizes of the result, or an empty list if the arguments are all numbers.
// Throws c10::Error if the sizes of the arguments do not broadcast.
std::vector<std::int64_t> pointwise_sizes(const c10::OperatorHandle& op,
                                          const std::vector<c10::IValue>& in);

// The result of `op`, whose slices lie along dimension `dim` of the result and have these sizes
// there. Every slice reads the whole of an argument that has size 1 there. An argument that the
// operator writes is written, and is the result; undefined if it has other sizes than the result.
at::Tensor run_by_slices(const c10::OperatorHandle& op, const std::vector<c10::IValue>& in,
                         std::int64_t dim, const std::vector<std::int64_t>& slice_sizes);

}  // namespace sluice::detail
