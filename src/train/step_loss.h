// What every rank learns of a step: its loss, its counted tokens, and what somebody asked of the
// run.
//
// Does not own: the losses of microbatches (Executor).
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/group.h"
#include "sluice/parts/train_ops.h"

namespace sluice {

// What all ranks told each other of their losses.
struct GatheredLosses {
  std::vector<MicrobatchLoss> of_microbatches;    // in their order
  std::vector<MicrobatchAuxiliary> of_auxiliary;  // by stage, in layer order, by microbatch
  StepRequest request = StepRequest::kNone;       // the strongest of all ranks

  double sum() const;
  std::int64_t count() const;
  // Means, microbatches weighing by what they count; each name once, in layer order.
  std::vector<std::pair<std::string, double>> auxiliary() const;
};

// Collective over `world`, all ranks. executor: the losses of its step; null: this rank has none.
Work<GatheredLosses> post_losses(const Group& world, const Executor* executor, StepRequest request);

class StepLoss {
 public:
  // requested may be empty. world: all ranks.
  StepLoss(Group world, std::function<StepRequest()> requested)
      : world_(std::move(world)), requested_(std::move(requested)) {}

  // Losses are taken from here. auxiliary: of these their scales.
  void watch(const Executor& executor, std::vector<AuxiliaryLoss> auxiliary) {
    executor_ = &executor;
    auxiliary_ = std::move(auxiliary);
  }
  // REDUCE_LOSS. Fills in loss, tokens and request; this and the report must outlive the work.
  Work<void> reduce(StepReport& report) const;

 private:
  double scale_of(const std::string& value) const;

  Group world_;
  std::function<StepRequest()> requested_;
  const Executor* executor_ = nullptr;
  std::vector<AuxiliaryLoss> auxiliary_;
};

}  // namespace sluice
