// The tensor that crosses a cut.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace sluice {

// The same storage without a graph. A write to either counts for both, so that autograd refuses a
// backward for which a layer after the cut has overwritten what a layer before it saved: as it
// would without the cut.
inline at::Tensor same_storage(const at::Tensor& tensor) {
  at::Tensor result = tensor.tensor_data();
  torch::autograd::impl::set_version_counter(result,
                                             torch::autograd::impl::version_counter(tensor));
  return result;
}

}  // namespace sluice
