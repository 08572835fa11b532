// A program of a pipeline with all that runs it: for training, or for evaluations of one number of
// microbatches. Several share the stages of a rank and take turns.
//
// Owns: the program, its executor, what ends its steps. Does not own: stages, `.grad`.
// Thread-safety: one rank's thread.
#pragma once

#include <string>
#include <vector>

#include "sluice/parts/executor.h"
#include "sluice/pipeline.h"
#include "train/gradient_ops.h"
#include "train/output_watch.h"

namespace sluice {

// What becomes of the values behind a model's last layer, and of its auxiliary losses.
struct ModelEnd {
  explicit ModelEnd(const Model& model)
      : outputs(model.outputs), loss(model.loss), auxiliary(model.auxiliary) {}

  std::vector<std::string> outputs;
  LossFunction loss;
  std::vector<AuxiliaryLoss> auxiliary;
};

class StepRunner {
 public:
  // Proves the program. References must outlive it.
  StepRunner(Program program, RankStages& stages, const std::vector<SharedParameter>& parameters,
             Transport& transport, const RunGroups& groups, const ModelEnd& end,
             const RunOptions& options, const std::vector<ExecutorObserver*>& observers,
             const DataParallel& data_parallel = {});
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  const Program& program() const { return program_; }
  StepResult run(const StepBatch& batch, const StepOptions& options);
  // Of the last run, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return ops_.losses(); }
  std::string flight_record() const { return executor_.flight_record(); }
  // After a run: gradients of ties within this rank are sums, too.
  void finish_ties() { ops_.finish_ties(); }

 private:
  const Program program_;
  const ModelEnd end_;
  OutputWatch outputs_;
  GradientOps ops_;
  Executor executor_;
};

}  // namespace sluice
