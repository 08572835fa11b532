#pragma once

#include <torch/csrc/autograd/variable.h>

namespace sluice {

// Returns a tensor with the same storage but no graph, to cross a cut. Both share a version
// counter. So if a layer after the cut overwrites what a layer before it saved, autograd rejects
// the backward, as it would without the cut.
inline at::Tensor same_storage(const at::Tensor& tensor) {
  at::Tensor result = tensor.tensor_data();
  torch::autograd::impl::set_version_counter(result,
                                             torch::autograd::impl::version_counter(tensor));
  return result;
}

}  // namespace sluice
