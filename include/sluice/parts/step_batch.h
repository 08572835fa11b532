// One step's data, as the data set makes it and the executor runs it.
//
// Owns: StepBatch, MicrobatchList. Does not own: where it comes from (causal_lm.h, pipeline.h),
// what is done with it (executor.h). Thread-safety: values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sluice/layer.h"
#include "sluice/options.h"

namespace sluice {

// The batch inputs of every microbatch: held ready, or made anew where they are used, so that a
// rank holds no more of them than it has microbatches in flight.
class MicrobatchList {
 public:
  void push_back(Values inputs) {
    makers_.push_back([inputs = std::move(inputs)] { return inputs; });
  }
  // Called on the rank's thread, once for each of its stages and whenever a size is needed: the
  // same values every time.
  void push_back(std::function<Values()> make) { makers_.push_back(std::move(make)); }
  std::size_t size() const { return makers_.size(); }
  // Precondition: microbatch < size().
  Values at(std::size_t microbatch) const { return makers_.at(microbatch)(); }

 private:
  std::vector<std::function<Values()>> makers_;
};

// One step's data: the same on every rank of a replica, but for the device, which is that of the
// rank's stages.
struct StepBatch {
  std::int64_t step = 0;  // 1-based; key of random numbers
  // Of the first of these microbatches among those of all replicas; keys of random numbers go on
  // from there.
  std::int64_t first_microbatch = 0;
  MicrobatchList microbatches;
  // Counted tokens of each, as LossValue::count will say: every rank divides by their sum.
  std::vector<std::int64_t> counts;
  // Of the batches of all replicas, where there are several: then this is divided by.
  std::optional<std::int64_t> total_count;
  // Of the gradients of this step, in place of the executor's.
  std::optional<GradientScale> scale;
};

// The loss of one microbatch, as the last stage computed it.
struct MicrobatchLoss {
  std::int64_t microbatch = 0;  // among those of all replicas
  double sum = 0;               // of token losses
  std::int64_t count = 0;       // counted tokens
};

}  // namespace sluice
