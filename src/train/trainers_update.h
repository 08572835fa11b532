// Trainer's gradient norm, finite check and update.
//
// Every rank makes the same decision. If loss or norm is not finite, gradients are cleared without
// an update. A tied parameter counts once in the norm. Its uses on one rank share storage and are
// updated once. Uses on several ranks get equal updates.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "optim/optimizer.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/saver.h"
#include "train/rank_model.h"
#include "train/sharded_state.h"
#include "train/step_norm.h"
#include "train/step_update.h"
#include "train/tied_sums.h"
#include "train/update.h"

namespace sluice {

class Checkpoint;

class TrainersUpdate final : public StepUpdate {
 public:
  TrainersUpdate(const OptimizerOptions& options, RankModel& rank);

  void set_learning_rate(double lr) { lr_ = lr; }

  void begin_step() override;
  void loss_known(StepResult& result) override;
  IdleWork partial_norm(int stage, const TiedSums& ties) override;
  Work<void> reduce_norm(TiedSums& ties, StepResult& result) override;
  // update() and optimizer_step() throw Error(kInternal) before loss and norm are known.
  Work<void> update(int stage, TiedSums& ties, const StepResult& result) override;
  void optimizer_step(TiedSums& ties, const StepResult& result) override;
  void end_step(std::int64_t step, const StepResult& result) override;

  const Optimizer& optimizer() const { return update_.optimizer(); }
  // Returns optimizer state as whole tensors, each on one replica. Collective over `groups`, which
  // may differ from the steps' groups.
  NamedTensors gather_state(const RunGroups& groups) const;
  void require_own_kind(const Checkpoint& checkpoint) const;
  // Loads optimizer state and sets weights_step(). Returns the parameters without saved state.
  std::vector<std::string> load_state(const Checkpoint& checkpoint);
  // Last step whose update the weights contain. Before the first step, the loaded checkpoint's step
  // or 0. Empty if an update failed halfway.
  std::optional<std::int64_t> weights_step() const;

 private:
  void require_known(const char* instruction) const;
  Work<void> update_stage(int stage, TiedSums& ties, const StepResult& result);
  ShardedState sharded_state() const;
  void judge(StepResult& result) const;

  RankModel& rank_;
  StepNorms norms_;
  const OptimizerKind kind_;
  Update update_;
  double lr_ = 0;
  bool loss_known_ = false, norm_known_ = false;
  std::set<int> updated_;
  bool is_updating_ = false;
  std::int64_t weights_step_ = 0;
};

}  // namespace sluice
