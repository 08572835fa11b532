// The norm of the gradients of all parameters, each counted once: by its owner.
//
// Does not own: sums of ties, which come before (tied_sums.h); how norms add up (gradient_norm.h).
// Thread-safety: one rank's thread.
#pragma once

#include <vector>

#include "sluice/parts/train_ops.h"
#include "train/parameter_list.h"

namespace sluice {

class StepNorm {
 public:
  // References must outlive it and its works. world: all ranks.
  StepNorm(const std::vector<SharedParameter>& parameters, Group world)
      : parameters_(parameters), world_(std::move(world)) {}

  // REDUCE_NORM. Fills in grad_norm and parameter_norms; the report must outlive the work.
  Work<void> reduce(StepReport& report) const;

 private:
  const std::vector<SharedParameter>& parameters_;
  Group world_;
};

}  // namespace sluice
