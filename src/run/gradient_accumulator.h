// Where the weight gradients of one parameter use add up over the microbatches of a step.
//
// Owns: the sum, and the hook that takes gradients at the engine's edge into the parameter, so that
// nothing is ever written to `.grad` during backward and no gradient waits for the end of it.
// Invariant: additions happen in the order of the calls; half-precision gradients add up in
// float32. The first gradient ever is taken over without a copy when nobody else holds its storage.
// Its memory serves the steps that follow, so that the peak does not depend on the number of
// microbatches and no pages are mapped anew. Thread-safety: none; on CUDA the engine's thread adds
// while the rank's thread waits for it.
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

  void add(const at::Tensor& gradient);  // undefined: nothing
  at::Tensor& sum() { return sum_; }     // undefined: no gradient since clear()
  void clear();
  const torch::autograd::Node* node() const { return node_.get(); }
  // The parameter still hands its gradients over: it was not moved or converted since.
  bool is_hooked_to(const at::Tensor& parameter) const;

 private:
  std::string name_;
  at::Tensor sum_;
  at::Tensor memory_;  // of the last step's sum
  at::ScalarType dtype_;
  NodePtr node_;  // keeps the hook alive: a parameter holds its node only weakly
};

}  // namespace sluice
