// The update of steps whose optimizer is the caller's: it steps once, and replicas then get the
// blocks that others have updated. Does not own: the optimizer. Thread-safety: one rank's thread.
#pragma once

#include <functional>
#include <utility>

#include "engine/executor.h"
#include "sluice/plan.h"
#include "train/own_blocks.h"
#include "train/rank_model.h"
#include "train/step_update.h"

namespace sluice {

// The first instruction of the row lets the optimizer step, with all stages; each UPDATE then
// shares its stage.
class CallersUpdate final : public StepUpdate {
 public:
  // The rank must outlive it.
  explicit CallersUpdate(const RankModel& rank) : rank_(rank) {}
  // step: of the optimizer, in the row that follows.
  void begin(const std::function<void()>& step) { step_ = &step; }

  Work<void> update(int stage, TiedSums& ties, const StepResult& result) override {
    optimizer_step(ties, result);
    return share_blocks(rank_, stage);
  }
  void optimizer_step(TiedSums& /*ties*/, const StepResult& /*result*/) override {
    if (const auto* step = std::exchange(step_, nullptr)) (*step)();
  }

 private:
  const RankModel& rank_;
  const std::function<void()>* step_ = nullptr;  // null: it has stepped
};

}  // namespace sluice
