// What every rank learns of a step: its loss, its counted tokens, and whether somebody asked to
// stop.
//
// Does not own: the losses of microbatches (Executor).
// Thread-safety: one rank's thread.
#pragma once

#include <functional>

#include "sluice/parts/group.h"
#include "sluice/parts/train_ops.h"

namespace sluice {

class StepLoss {
 public:
  // stop_requested may be empty. world: all ranks.
  StepLoss(Group world, std::function<bool()> stop_requested)
      : world_(std::move(world)), stop_requested_(std::move(stop_requested)) {}

  // Losses are taken from here.
  void watch(const Executor& executor) { executor_ = &executor; }
  // REDUCE_LOSS. Fills in loss, tokens and stop; the report must outlive the work.
  Work<void> reduce(StepReport& report) const;

 private:
  Group world_;
  std::function<bool()> stop_requested_;
  const Executor* executor_ = nullptr;
};

}  // namespace sluice
