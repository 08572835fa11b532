// The update of steps whose optimizer belongs to the caller. The optimizer steps once, and then
// each replica sends the blocks that it has updated to the others.
#pragma once

#include <functional>
#include <utility>

#include "engine/executor.h"
#include "sluice/plan.h"
#include "train/own_blocks.h"
#include "train/rank_model.h"
#include "train/step_update.h"

namespace sluice {

// The first instruction of the row calls the optimizer for all stages. Each UPDATE then shares the
// blocks of its stage.
class CallersUpdate final : public StepUpdate {
 public:
  // `rank` must outlive this object.
  explicit CallersUpdate(const RankModel& rank) : rank_(rank) {}
  // Sets the optimizer's step for the next row of instructions.
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
  const std::function<void()>* step_ = nullptr;  // null once called
};

}  // namespace sluice
