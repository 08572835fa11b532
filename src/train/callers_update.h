// Updates parameters with a user's optimizer. The first update instruction on a rank runs the
// optimizer for all stages. Each UPDATE then sends its stage's blocks to the other replicas.
#pragma once

#include <functional>
#include <utility>

#include "engine/executor.h"
#include "sluice/plan.h"
#include "train/own_blocks.h"
#include "train/rank_model.h"
#include "train/step_update.h"

namespace sluice {

class CallersUpdate final : public StepUpdate {
 public:
  explicit CallersUpdate(const RankModel& rank) : rank_(rank) {}
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
  const std::function<void()>* step_ = nullptr;  // null after the call
};

}  // namespace sluice
