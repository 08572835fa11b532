// The losses of one step on the last stage's rank. They stay tensors until values(), because
// reading them waits for a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/executor.h"

namespace sluice {

class StepLosses {
 public:
  StepLosses(LossFunction function, GradientScale scale, int num_replicas)
      : function_(std::move(function)),
        usual_scale_(scale),
        scale_(scale),
        num_replicas_(num_replicas) {}

  void begin_step(const StepBatch& batch);
  // Returns a microbatch's summed loss, with its autograd graph. Throws Error(kUsage) unless the
  // loss is one number and, with GradientScale::kTokens, its count matches the batch.
  at::Tensor compute(int microbatch, const Values& outputs, const Values& batch);
  // Stores a microbatch's loss. sum: the result of compute(), detached.
  void put(int microbatch, at::Tensor sum);
  // Returns the gradient of the step's loss by the microbatch's summed loss. Call put() first.
  at::Tensor gradient(int microbatch) const;
  // Returns the weight of a microbatch's mean loss in the step's loss, by the batch's counts.
  double weight(int microbatch) const;
  // Losses so far in microbatch order, numbered over all replicas.
  const std::vector<MicrobatchLoss>& values();
  void clear();

 private:
  struct Sum {
    at::Tensor loss;
    std::int64_t count = 0;
  };

  LossFunction function_;
  GradientScale usual_scale_, scale_;
  const int num_replicas_;
  std::vector<std::int64_t> counts_;
  std::int64_t first_microbatch_ = 0;
  std::int64_t counted_tokens_ = 0;  // in this step, over all replicas
  std::vector<Sum> sums_;
  std::vector<MicrobatchLoss> values_;
};

}  // namespace sluice
