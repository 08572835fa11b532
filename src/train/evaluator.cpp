#include "train/evaluator.h"

#include <algorithm>
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
  const auto found = std::find_if(runners_.begin(), runners_.end(),
                                  [&](const Runner& runner) { return runner.kind == kind; });
  if (found != runners_.end()) {
    runners_.splice(runners_.begin(), runners_, found);
    return found->step;
  }
  LowerOptions lowering;
  lowering.forward_only = true;
  lowering.loss = true;
  lowering.outputs = kind.gathers_outputs;
  const Schedule schedule = make_forward_schedule(stage_map_, kind.num_microbatches);
  if (runners_.size() == kMostPrograms) runners_.pop_back();
  runners_.emplace_front(kind, lower(schedule, lowering), stages_, no_ties_, transport_, end_,
                         options_, observers_);
  return runners_.front().step;
}

StepResult Evaluator::run(const StepBatch& batch, const StepOptions& options) {
  const EvaluationMode mode(stages_);
  StepRunner& runner = runner_for({.num_microbatches = static_cast<int>(batch.microbatches.size()),
                                   .gathers_outputs = options.outputs == OutputRanks::kAll});
  StepResult result = runner.run(batch, options);
  losses_ = runner.losses();
  return result;
}

std::string Evaluator::flight_record() const {
  return runners_.empty() ? "" : runners_.front().step.flight_record();
}

}  // namespace sluice
