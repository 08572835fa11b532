// A program of a pipeline with all that runs it: for training, for evaluations of one number of
// microbatches, or for a caller's update. Several share the stages of a rank and take turns.
//
// Owns: the program, its executor, the end of its steps. Does not own: stages, `.grad`, the update.
// Thread-safety: one rank's thread.
#pragma once

#include <string>
#include <vector>

#include "engine/executor.h"
#include "sluice/model.h"
#include "sluice/parts/run_options.h"
#include "train/output_watch.h"
#include "train/rank_model.h"
#include "train/step_end.h"

namespace sluice {

// The end of a model: what becomes of the values behind its last layer, and of its auxiliary
// losses.
struct ModelEnd {
  explicit ModelEnd(const Model& model);
  // The same outputs, and a loss that is nothing.
  ModelEnd without_loss() const;

  std::vector<std::string> outputs;
  LossFunction loss;
  std::vector<AuxiliaryLoss> auxiliary;
};

class StepRunner {
 public:
  // program: proven. References must outlive it.
  StepRunner(Program program, RankModel& rank, Transport& transport, const ModelEnd& end,
             const RunOptions& options, const std::vector<ExecutorObserver*>& observers,
             StepUpdate& update);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  const Program& program() const { return program_; }
  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  StepResult run(const StepBatch& batch, const StepOptions& options);
  // Losses of the last run, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return ops_.losses(); }
  // After a run: gradients of ties within this rank are sums, too.
  void finish_ties() { ops_.finish_ties(); }

 private:
  const Program program_;
  OutputWatch outputs_;
  StepEndOps ops_;
  Executor executor_;
};

}  // namespace sluice
