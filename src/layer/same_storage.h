#pragma once

#include <torch/csrc/autograd/variable.h>

namespace sluice {

// Returns a tensor with the same storage but no graph, to cross a cut between stages. Both share a
// version counter. If a layer after the cut overwrites a tensor saved before the cut, autograd
// therefore rejects the backward, as without a cut.
inline at::Tensor same_storage(const at::Tensor& tensor) {
  at::Tensor result = tensor.tensor_data();
  torch::autograd::impl::set_version_counter(result,
                                             torch::autograd::impl::version_counter(tensor));
  return result;
}

}  // namespace sluice
