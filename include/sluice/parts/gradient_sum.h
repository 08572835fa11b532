// Where the weight gradients of one parameter use add up over the microbatches of a step.
//
// Owns: the sum and its memory. Does not own: where gradients come from (chunk_backward.h).
//
// Invariants:
//  1. Additions happen in the order of the calls; half-precision gradients add up in float32.
//  2. The memory of the sum is taken by reserve() and serves all steps, so that the peak depends
//     neither on the number of microbatches nor on the step, and no pages are mapped anew. While
//     somebody still holds the last sum, a gradient is taken over instead where nobody else holds
//     its storage.
// Thread-safety: none; on CUDA the engine's thread adds while the rank's thread waits for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace sluice {

class GradientSum {
 public:
  // parameter: a leaf that requires grad. name: for messages.
  GradientSum(const at::Tensor& parameter, std::string name);
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  const at::Tensor& parameter() const { return parameter_; }
  // Takes the memory of the sum, unless it is there.
  void reserve();
  // Undefined: nothing. Throws Error(kUsage) for a sparse gradient.
  void add(const at::Tensor& gradient);
  at::Tensor& value() { return sum_; }  // undefined: no gradient since clear()
  void clear();

 private:
  std::string name_;
  at::Tensor sum_;
  at::Tensor memory_;  // of the sum, while there is none
  at::Tensor parameter_;
  at::ScalarType dtype_;
};

}  // namespace sluice
