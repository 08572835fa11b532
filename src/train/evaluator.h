// Runs forwards only through a rank's stages, for batches of any number of microbatches. Caches the
// most recently used programs with their executors.
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
  // References must outlive this object. other: the layers that evaluate; null: those of `rank`.
  Evaluator(std::unique_ptr<EvaluationModel> other, const Plan& plan, RankModel& rank,
            Transport& transport, const ModelEnd& end, const RunOptions& options,
            const std::vector<ExecutorObserver*>& observers);

  // Collective over all ranks. Each replica passes its own batch, of any number of microbatches. If
  // there are several replicas, a batch may be empty. Modules are in evaluation mode during the
  // call.
  StepResult run(const StepBatch& batch, const StepOptions& options = {});
  // Returns the outputs of a batch whose counts are all 0, without computing a loss.
  std::vector<Values> predict(const StepBatch& batch, OutputRanks ranks);
  // Losses of all microbatches of the last run, in order. They are the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return losses_; }
  // The latest instructions of this rank in the last run, even if that run failed.
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
  std::list<Runner> runners_;  // most recently used first
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
