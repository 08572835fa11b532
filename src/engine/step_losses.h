// The losses of one step on the rank of the last stage, and what their backwards start with.
//
// Owns: the loss function and its scale; the loss of every microbatch, as a tensor until somebody
// asks, so that a GPU need not be waited for. Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/executor.h"

namespace sluice {

class StepLosses {
 public:
  // num_replicas: that share the step.
  StepLosses(LossFunction function, GradientScale scale, int num_replicas)
      : function_(std::move(function)),
        usual_scale_(scale),
        scale_(scale),
        num_replicas_(num_replicas) {}

  // Counts and scale of the step.
  void begin_step(const StepBatch& batch);
  // The sum of the losses of a microbatch's tokens, with its graph. Throws Error(kUsage) when the
  // function returns no single number, or counts otherwise than `counts` where that is the scale.
  at::Tensor compute(int microbatch, const Values& outputs, const Values& batch);
  // sum: what compute() returned, without a graph.
  void put(int microbatch, at::Tensor sum);
  // The gradient of the step's loss with respect to the sum of a microbatch. Precondition: put().
  at::Tensor gradient(int microbatch) const;
  // The weight of a microbatch's mean loss in the step's, by the counts of the batch.
  double weight(int microbatch) const;
  // Losses of the microbatches that were put, in their order, numbered among those of all replicas.
  const std::vector<MicrobatchLoss>& values();
  void clear();

 private:
  struct Sum {
    at::Tensor loss;
    std::int64_t count = 0;
  };

  LossFunction function_;
  GradientScale usual_scale_, scale_;  // of every step, of this one
  const int num_replicas_;
  std::vector<std::int64_t> counts_;  // of the batch
  std::int64_t first_microbatch_ = 0;
  std::int64_t counted_tokens_ = 0;  // of the whole step, of all replicas
  std::vector<Sum> sums_;            // count: of the batch, then as the function counted
  std::vector<MicrobatchLoss> values_;
};

}  // namespace sluice
