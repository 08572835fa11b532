// The losses of one step on the rank of the last stage, and what their backwards start with.
//
// Owns: the loss of every microbatch, as a tensor until somebody asks, so that a GPU need not be
// waited for. Does not own: computing it (Executor). Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sluice/executor.h"

namespace sluice {

class StepLosses {
 public:
  StepLosses(GradientScale scale, double divisor) : scale_(scale), divisor_(divisor) {}

  // counts: counted tokens of every microbatch of the step.
  void begin_step(const std::vector<std::int64_t>& counts);
  // sum: one number without a graph, the sum of the losses of `count` tokens.
  void put(int microbatch, at::Tensor sum, std::int64_t count);
  // The gradient of the step's loss with respect to the sum of a microbatch. Precondition: put().
  at::Tensor gradient(int microbatch) const;
  // Of the microbatches that were put, in their order.
  const std::vector<MicrobatchLoss>& values();
  void clear();

 private:
  GradientScale scale_;
  double divisor_;
  std::int64_t counted_tokens_ = 0;  // of the whole step
  std::vector<std::pair<at::Tensor, std::int64_t>> sums_;
  std::vector<MicrobatchLoss> values_;
};

}  // namespace sluice
