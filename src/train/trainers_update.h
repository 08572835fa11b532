// Norm, check and update at the end of a step whose plan says StepEnd::kUpdate: what Trainer adds
// to a pipeline.
//
// Owns: the norms of the step, the optimizer, what is known of the step so far. Does not own: sums
// of gradients, ties, the loss (step_end.h).
//
// Invariants:
//  1. Every rank takes the same decision from the same numbers: after a loss or a norm that is not
//     finite nothing is updated, and gradients are cleared.
//  2. A tied parameter counts once in the norm, for the rank of its first use; uses on one rank
//     share storage and are updated once, uses on several ranks get the same update on each.
//  3. The norm is a fixed tree over the parameters in layer order (gradient_norm.h).
// Thread-safety: one rank's thread.
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
  // References must outlive it.
  TrainersUpdate(const OptimizerOptions& options, RankModel& rank);

  // The rate of the step that follows.
  void set_learning_rate(double lr) { lr_ = lr; }

  void begin_step() override;
  void loss_known(StepResult& result) override;
  IdleWork partial_norm(int stage, const TiedSums& ties) override;
  Work<void> reduce_norm(TiedSums& ties, StepResult& result) override;
  // Both throw Error(kInternal) before loss and norm are known.
  Work<void> update(int stage, TiedSums& ties, const StepResult& result) override;
  void optimizer_step(TiedSums& ties, const StepResult& result) override;
  void end_step(std::int64_t step, const StepResult& result) override;

  const Optimizer& optimizer() const { return update_.optimizer(); }
  // The state of the optimizer, gathered from the blocks of the replicas into whole tensors as in a
  // checkpoint, each on one replica. Collective over the ranks of `groups`, which may differ from
  // those of the steps.
  NamedTensors gather_state(const RunGroups& groups) const;
  // Throws Error(kCheckpoint) for the state of another kind of optimizer.
  void require_own_kind(const Checkpoint& checkpoint) const;
  // Fills the state, as load_optimizer() does. Returns the parameters without any. The weights are
  // those of the checkpoint's step now.
  std::vector<std::string> load_state(const Checkpoint& checkpoint);
  // The last step whose update the weights of this rank hold, that of the checkpoint or 0 before
  // the first; nothing when an update was begun and failed.
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
  bool loss_known_ = false, norm_known_ = false;  // facts about this step
  std::set<int> updated_;                         // stages, since then
  bool is_updating_ = false;                      // an update began and has not ended
  std::int64_t weights_step_ = 0;
};

}  // namespace sluice
