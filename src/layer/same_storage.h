#pragma once

#include <torch/csrc/autograd/variable.h>

namespace sluice {

// Returns a tensor that has the same storage but no graph, to cross a cut between stages. Both
// tensors share a version counter. If a layer after the cut overwrites a tensor that a layer before
// the cut saved, autograd therefore rejects the backward, as without a cut.
inline at::Tensor same_storage(const at::Tensor& tensor) {
  at::Tensor result = tensor.tensor_data();
  torch::autograd::impl::set_version_counter(result,
                                             torch::autograd::impl::version_counter(tensor));
  return result;
}

}  // namespace sluice
