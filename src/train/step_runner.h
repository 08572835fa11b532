// Runs one program. The runners of a rank share its stages, one at a time.
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

struct ModelEnd {
  explicit ModelEnd(const Model& model);
  // Returns a copy whose loss is 0.
  ModelEnd without_loss() const;

  std::vector<std::string> outputs;
  LossFunction loss;
  std::vector<AuxiliaryLoss> auxiliary;
};

class StepRunner {
 public:
  // program: must have passed verify().
  StepRunner(Program program, RankModel& rank, Transport& transport, const ModelEnd& end,
             const RunOptions& options, const std::vector<ExecutorObserver*>& observers,
             StepUpdate& update);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  const Program& program() const { return program_; }
  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  StepResult run(const StepBatch& batch, const StepOptions& options);
  const std::vector<MicrobatchLoss>& losses() const { return ops_.losses(); }
  void finish_ties() { ops_.finish_ties(); }

 private:
  const Program program_;
  OutputWatch outputs_;
  StepEndOps ops_;
  Executor executor_;
};

}  // namespace sluice
