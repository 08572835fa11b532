#pragma once

#include <ATen/ATen.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/csrc/autograd/autograd.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "sluice/error.h"

namespace sluice::ops {

[[noreturn]] inline void refuse(const char* op, const std::string& what,
                                const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = op, .remedy = remedy});
}

// True if our kernels support the tensors: plain strided float32 on the CPU. Tensor subclasses and
// transforms (vmap, forward-mode AD) must run LibTorch's operators.
inline bool kernels_take(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.device() != at::kCPU || tensor.scalar_type() != at::kFloat ||
        tensor.layout() != at::kStrided || tensor.is_neg() || tensor._is_zerotensor() ||
        tensor.numel() == 0 || at::isTensorSubclassLike(tensor) || tensor._fw_grad(0).defined())
      return false;
  }
  return true;
}

// Computes gradients by running `operators` again under autograd, so that create_graph works.
template <typename Operators>
std::vector<at::Tensor> differentiable_gradients(const std::vector<at::Tensor>& inputs,
                                                 const at::Tensor& gradient,
                                                 const Operators& operators) {
  std::vector<at::Tensor> wanted;
  for (const at::Tensor& input : inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  const auto found = torch::autograd::grad({operators(inputs)}, wanted, {gradient},
                                           /*retain_graph=*/true, /*create_graph=*/true);
  std::vector<at::Tensor> all(inputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) all[i] = found[next++];
  }
  return all;
}

}  // namespace sluice::ops
