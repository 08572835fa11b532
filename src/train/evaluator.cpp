#include "train/evaluator.h"

#include <tuple>
#include <utility>

#include "train/evaluation_mode.h"

namespace sluice {

Evaluator::Evaluator(const StageMap& stage_map, RankStages& stages, Transport& transport,
                     const LossFunction& loss, const RunOptions& options,
                     const std::vector<ExecutorObserver*>& observers)
    : stage_map_(stage_map),
      stages_(stages),
      transport_(transport),
      loss_(loss),
      options_(options),
      observers_(observers) {}

StepRunner& Evaluator::runner_for(int num_microbatches) {
  const auto found = runners_.find(num_microbatches);
  if (found != runners_.end()) return found->second;
  LowerOptions lowering;
  lowering.forward_only = true;
  lowering.loss = true;
  const Schedule schedule = make_forward_schedule(stage_map_, num_microbatches);
  return runners_
      .emplace(std::piecewise_construct, std::tuple(num_microbatches),
               std::forward_as_tuple(lower(schedule, lowering), stages_, no_ties_, transport_,
                                     loss_, options_, observers_))
      .first->second;
}

StepResult Evaluator::run(const StepBatch& batch, const StepOptions& options) {
  const EvaluationMode mode(stages_);
  StepRunner& runner = runner_for(static_cast<int>(batch.microbatches.size()));
  StepResult result = runner.run(batch, options);
  losses_ = runner.losses();
  return result;
}

}  // namespace sluice
