// Where the weight gradients of one parameter use add up over the microbatches of a step.
//
// Owns: the sum, and the hook that takes gradients at the engine's edge into the parameter, so that
// nothing is ever written to `.grad` during backward and no gradient waits for the end of it.
// Invariant: additions happen in the order of the calls; half-precision gradients add up in
// float32. The memory of the sum is taken by reserve() and serves all steps, so that the peak
// depends neither on the number of microbatches nor on the step, and no pages are mapped anew.
// While somebody still holds the last sum, a gradient is taken over instead where nobody else holds
// its storage. Thread-safety: none; on CUDA the engine's thread adds while the rank's thread waits
// for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "run/split_backward.h"

namespace sluice {

class GradientAccumulator {
 public:
  // Hooks itself to the parameter, a leaf that requires grad. name: for messages.
  GradientAccumulator(const at::Tensor& parameter, std::string name);
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;

  // Takes the memory of the sum, unless it is there.
  void reserve();
  void add(const at::Tensor& gradient);  // undefined: nothing
  at::Tensor& sum() { return sum_; }     // undefined: no gradient since clear()
  void clear();
  const torch::autograd::Node* node() const { return node_.get(); }
  // The parameter still hands its gradients over: it was not moved or converted since.
  bool is_hooked_to(const at::Tensor& parameter) const;

 private:
  std::string name_;
  at::Tensor sum_;
  at::Tensor memory_;  // of the sum, while there is none
  at::Tensor parameter_;
  at::ScalarType dtype_;
  NodePtr node_;  // keeps the hook alive: a parameter holds its node only weakly
};

}  // namespace sluice
