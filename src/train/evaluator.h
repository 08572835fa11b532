// Forwards alone through a rank's stages, for batches of any number of microbatches.
//
// Owns: proven programs with their executors, for the few numbers of microbatches that came last;
// of a model whose evaluation is other layers, their modules (evaluation_model.h).
// Does not own: the stages, which a training may have between two evaluations.
// Thread-safety: one rank's thread.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/step_program.h"
#include "sluice/parts/run_options.h"
#include "train/evaluation_model.h"
#include "train/rank_model.h"
#include "train/step_runner.h"

namespace sluice {

class Evaluator {
 public:
  // References must outlive it. other: the layers that evaluate; null: those of `rank`.
  Evaluator(std::unique_ptr<EvaluationModel> other, const Plan& plan, RankModel& rank,
            Transport& transport, const ModelEnd& end, const RunOptions& options,
            const std::vector<ExecutorObserver*>& observers);

  // Collective over all ranks. Each replica has its own batch, of any number of microbatches, also
  // none where there are several replicas. Modules are in evaluation mode meanwhile, and then each
  // in the mode that it was in.
  StepResult run(const StepBatch& batch, const StepOptions& options = {});
  // The same without a loss: the outputs. Of a batch that counts nothing.
  std::vector<Values> predict(const StepBatch& batch, OutputRanks ranks);
  // Losses of the last run, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return losses_; }
  // The last instructions of this rank in the last run, which may have failed.
  std::string flight_record() const;
  std::size_t num_programs() const { return runners_.size(); }

  static constexpr std::size_t kMostPrograms = 4;

 private:
  struct Runner {
    template <typename... Parts>
    explicit Runner(const detail::StepProgram& of, Parts&&... parts)
        : program(of), step(std::forward<Parts>(parts)...) {}
    const detail::StepProgram program;
    StepRunner step;
  };
  StepRunner& runner_for(const detail::StepProgram& program);

  const std::unique_ptr<EvaluationModel> other_;
  const Plan& plan_;
  RankModel& rank_;
  Transport& transport_;
  const ModelEnd& end_;
  const ModelEnd without_loss_;
  const RunOptions& options_;
  const std::vector<ExecutorObserver*> observers_;
  StepUpdate nobodys_;
  std::list<Runner> runners_;  // the last used first
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
