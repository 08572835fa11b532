// What every rank learns of a step: its loss, its counted tokens, and whether somebody asked to
// stop.
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
  bool flag = false;                              // some rank's was up

  double sum() const;
  std::int64_t count() const;
  // Means, microbatches weighing by what they count; each name once, in layer order.
  std::vector<std::pair<std::string, double>> auxiliary() const;
};

// Collective over `world`, all ranks. executor: the losses of its step; null: this rank has none.
Work<GatheredLosses> post_losses(const Group& world, const Executor* executor, bool flag);

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
