// What ends a step whose update is the user's: ties are summed, every rank learns the losses.
//
// Does not own: where gradients go then (Pipeline).
// Thread-safety: one rank's thread.
#pragma once

#include <string>
#include <vector>

#include "sluice/parts/executor.h"
#include "sluice/pipeline.h"
#include "train/output_watch.h"
#include "train/parameter_list.h"
#include "train/replica_sums.h"
#include "train/stage_reductions.h"
#include "train/tied_sums.h"

namespace sluice {

class GradientOps final : public StepOps {
 public:
  // References must outlive it. Programs with a norm or an update are refused when they come there.
  GradientOps(const Program& program, const std::vector<SharedParameter>& parameters,
              const std::vector<Stage*>& stages, const RunGroups& groups, OutputWatch& outputs,
              GradientReduction reduction, const DataParallel& data_parallel);

  // Losses are taken from here.
  void watch(const Executor& executor) { executor_ = &executor; }
  // Ties within this rank, and an end to the step's sums: after the step.
  void finish_ties();
  // Of the last step, but for its outputs.
  const StepResult& result() const { return result_; }
  // Of the last step, of all microbatches in order.
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
  TiedSums ties_;
  StageReductions reductions_;  // one replica
  ReplicaSums replicas_;        // several
  OutputWatch& outputs_;
  const RunGroups groups_;
  const Executor* executor_ = nullptr;
  StepResult result_;
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
