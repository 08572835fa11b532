// Runs a pointwise operator once for each slice of this rank. LibTorch uses other instructions for
// the last elements of a row, so bits may depend on the number and layout of elements in a call.
// Each slice and its gradient therefore get the layout of an undivided tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

namespace sluice::detail {

// Returns the result's sizes, empty if all arguments are numbers. Throws c10::Error if sizes do not
// broadcast.
std::vector<std::int64_t> pointwise_sizes(const c10::OperatorHandle& op,
                                          const std::vector<c10::IValue>& in);

// Runs `op` once per slice, where slices divide `dim` of the result. Arguments of size 1 along
// `dim` go to every slice. If the operator writes to an argument, returns the argument, or an
// undefined tensor if its sizes differ from the result's.
at::Tensor run_by_slices(const c10::OperatorHandle& op, const std::vector<c10::IValue>& in,
                         std::int64_t dim, const std::vector<std::int64_t>& slice_sizes);

}  // namespace sluice::detail
