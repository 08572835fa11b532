// The end of a step, whoever owns the optimizer: gradients of all replicas, or of a hook, tied
// ones, loss, outputs; norm and update as its StepUpdate has them. Carries out what the executor
// leaves to StepOps.
//
// Does not own: gradients of single uses (Stage), order (Program), where gradients go then
// (grads.h).
//
// Invariants:
//  1. Gradients add up over the microbatches of a replica, then over replicas (DataParallel),
//     then over the uses of a tie, in layer order, wherever the uses are; each use gets the sum:
//     the same bits on every replica.
//  2. Every rank holds its parameters whole, unless zero3 shards them (UNSHARD, RESHARD).
// Thread-safety: one rank's thread.
#pragma once

#include <vector>

#include "engine/executor.h"
#include "sluice/parts/run_options.h"
#include "train/output_watch.h"
#include "train/rank_model.h"
#include "train/replica_sums.h"
#include "train/stage_reductions.h"
#include "train/step_update.h"
#include "train/tied_sums.h"

namespace sluice {

class StepEndOps final : public StepOps {
 public:
  // References must outlive it. Throws Error(kInternal) for a tie across ranks that the program has
  // no group for.
  StepEndOps(const Program& program, RankModel& rank, OutputWatch& outputs,
             const RunOptions& options, const std::vector<AuxiliaryLoss>& auxiliary,
             StepUpdate& update);

  // Losses are taken from here; the executor is made after its StepOps.
  void watch(const Executor& executor) { executor_ = &executor; }
  void begin_step();
  void end_step(std::int64_t step);
  // Ties within this rank, and an end to the step's sums: after a step without an update.
  void finish_ties();
  // The result of the last step, but for its outputs.
  const StepResult& result() const { return result_; }
  // Losses of the last step, of all microbatches in order.
  const std::vector<MicrobatchLoss>& losses() const { return losses_; }

  Work<void> unshard(int stage) override;
  void reshard(int stage) override;
  Work<void> reduce_gradients(int stage, std::optional<int> microbatch) override;
  Work<void> reduce_tied(int group) override;
  Work<void> reduce_loss() override;
  Work<void> gather_outputs() override;
  Work<void> reduce_norm() override;
  IdleWork partial_norm(int stage) override;
  Work<void> update(int stage) override;
  void optimizer_step() override;

 private:
  void end_layers();

  RankModel& rank_;
  const bool trains_;
  const std::vector<SharedParameter> none_;
  TiedSums ties_;
  StageReductions reductions_;  // one replica
  ReplicaSums replicas_;        // several
  OutputWatch& outputs_;
  const std::function<StepRequest()>& requested_;
  const std::vector<AuxiliaryLoss>& auxiliary_;
  StepUpdate& update_;
  const Executor* executor_ = nullptr;
  StepResult result_;
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
