// Runs forward-only programs for any number of microbatches. Caches the latest programs.
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
  // other: the evaluation layers, or null to use the training layers of `rank`.
  Evaluator(std::unique_ptr<EvaluationModel> other, const Plan& plan, RankModel& rank,
            Transport& transport, const ModelEnd& end, const RunOptions& options,
            const std::vector<ExecutorObserver*>& observers);

  // Collective over all ranks. Some replicas may have an empty batch. Modules are in evaluation
  // mode during the call.
  StepResult run(const StepBatch& batch, const StepOptions& options = {});
  std::vector<Values> predict(const StepBatch& batch, OutputRanks ranks);
  // Losses of the last run() in microbatch order, on all ranks.
  const std::vector<MicrobatchLoss>& losses() const { return losses_; }
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
  std::list<Runner> runners_;
  std::vector<MicrobatchLoss> losses_;
};

}  // namespace sluice
