// Forwards alone through a rank's stages, for batches of any number of microbatches: what
// Pipeline::eval_step, Trainer::evaluate and `sluice eval` are made of.
//
// Owns: a proven program with its executor for each number of microbatches that came. Does not own:
// the stages, which a training may have between two evaluations.
// Thread-safety: one rank's thread.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/build_stages.h"
#include "sluice/pipeline.h"
#include "train/step_runner.h"

namespace sluice {

class Evaluator {
 public:
  // stage_map: of the stages. References must outlive it.
  Evaluator(const StageMap& stage_map, RankStages& stages, Transport& transport,
            const ModelEnd& end, const RunOptions& options,
            const std::vector<ExecutorObserver*>& observers);

  // Collective. Modules are in evaluation mode meanwhile, and then each in the mode that it was in.
  StepResult run(const StepBatch& batch, const StepOptions& options = {});
  // Of the last run, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return losses_; }

 private:
  struct Kind {
    int num_microbatches = 0;
    bool gathers_outputs = false;
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  StepRunner& runner_for(const Kind& kind);

  const StageMap& stage_map_;
  RankStages& stages_;
  Transport& transport_;
  const ModelEnd end_;
  const RunOptions& options_;
  const std::vector<ExecutorObserver*> observers_;
  const std::vector<SharedParameter> no_ties_;  // nothing is summed
  std::map<Kind, StepRunner> runners_;
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
