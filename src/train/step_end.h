// Carries out the instructions that end a step.
//
// Gradients are summed over microbatches, then replicas, then the uses of a tied parameter in layer
// order. Every use gets the sum, with the same bits on every replica and for any placement.
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
  StepEndOps(const Program& program, RankModel& rank, OutputWatch& outputs,
             const RunOptions& options, const std::vector<AuxiliaryLoss>& auxiliary,
             StepUpdate& update);

  // Sets the executor, which has the losses. It is made after this object.
  void watch(const Executor& executor) { executor_ = &executor; }
  void begin_step();
  void end_step(std::int64_t step);
  void finish_ties();
  const StepResult& result() const { return result_; }
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
  void post_layer_barrier();

  RankModel& rank_;
  const bool trains_;
  const std::vector<SharedParameter> none_;
  TiedSums ties_;
  StageReductions reductions_;  // for one replica
  ReplicaSums replicas_;        // for several replicas
  OutputWatch& outputs_;
  const std::function<StepRequest()>& requested_;
  const std::vector<AuxiliaryLoss>& auxiliary_;
  StepUpdate& update_;
  const Executor* executor_ = nullptr;
  StepResult result_;
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
