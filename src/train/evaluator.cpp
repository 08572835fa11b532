#include "train/evaluator.h"

#include <tuple>
#include <utility>

#include "train/evaluation_mode.h"

namespace sluice {

Evaluator::Evaluator(const StageMap& stage_map, RankStages& stages, Transport& transport,
                     const ModelEnd& end, const RunOptions& options,
                     const std::vector<ExecutorObserver*>& observers)
    : stage_map_(stage_map),
      stages_(stages),
      transport_(transport),
      end_(end),
      options_(options),
      observers_(observers) {}

StepRunner& Evaluator::runner_for(const Kind& kind) {
  const auto found = runners_.find(kind);
  if (found != runners_.end()) return found->second;
  LowerOptions lowering;
  lowering.forward_only = true;
  lowering.loss = true;
  lowering.outputs = kind.gathers_outputs;
  const Schedule schedule = make_forward_schedule(stage_map_, kind.num_microbatches);
  return runners_
      .emplace(std::piecewise_construct, std::tuple(kind),
               std::forward_as_tuple(lower(schedule, lowering), stages_, no_ties_, transport_, end_,
                                     options_, observers_))
      .first->second;
}

StepResult Evaluator::run(const StepBatch& batch, const StepOptions& options) {
  const EvaluationMode mode(stages_);
  StepRunner& runner = runner_for({.num_microbatches = static_cast<int>(batch.microbatches.size()),
                                   .gathers_outputs = options.outputs == OutputRanks::kAll});
  StepResult result = runner.run(batch, options);
  losses_ = runner.losses();
  return result;
}

}  // namespace sluice
