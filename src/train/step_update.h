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

#include "optim/optimizer.h"
#include "run/executor.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/saver.h"
#include "train/rank_model.h"
#include "train/sharded_state.h"
#include "train/step_norm.h"
#include "train/tied_sums.h"
#include "train/update.h"

namespace sluice {

class Checkpoint;

class StepUpdate {
 public:
  // References must outlive it.
  StepUpdate(const OptimizerOptions& options, RankModel& rank);

  // The rate of the step that follows.
  void set_learning_rate(double lr) { lr_ = lr; }

  void begin_step();
  // The parts of a step: its loss is known; pieces of its norm, and the rest; its update, stage by
  // stage.
  void loss_known(StepResult& result);
  IdleWork partial_norm(int stage, const TiedSums& ties);
  Work<void> reduce_norm(TiedSums& ties, StepResult& result);
  // Both throw Error(kInternal) before loss and norm are known.
  Work<void> update(int stage, TiedSums& ties, const StepResult& result);
  void optimizer_step(TiedSums& ties, const StepResult& result);
  // The row has ended, on this rank.
  void end_step(std::int64_t step, const StepResult& result);

  const Optimizer& optimizer() const { return update_.optimizer(); }
  // Where each replica has the state of its own blocks: gathered, as a checkpoint holds it, each
  // tensor on one replica. Collective over the ranks of `groups`, which may be others than those of
  // the steps.
  NamedTensors gather_state(const RunGroups& groups) const;
  // Fills the state, as load_optimizer() does. Returns the parameters without any.
  std::vector<std::string> load_state(const Checkpoint& checkpoint);
  // The last step whose update the weights of this rank hold, 0 before the first; nothing when an
  // update was begun and failed.
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
  bool loss_known_ = false, norm_known_ = false;  // of this step
  std::set<int> updated_;                         // stages, since then
  bool is_updating_ = false;                      // an update began and has not ended
  std::int64_t weights_step_ = 0;
};

}  // namespace sluice
