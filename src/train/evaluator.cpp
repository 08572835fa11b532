#include "train/evaluator.h"

#include <algorithm>
#include <utility>

#include "train/evaluation_mode.h"
#include "train/step_loss.h"

namespace sluice {

namespace {

// Replicas may have other numbers of microbatches, and so other programs: what is sharded is
// gathered once before them.
class WholeStages {
 public:
  WholeStages(ShardedParameters* sharded, const RankStages& stages)
      : sharded_(sharded), stages_(stages) {
    if (!sharded_) return;
    std::vector<Work<void>> works;
    for (const auto& stage : stages_.stages()) works.push_back(sharded_->unshard(stage->index()));
    for (Work<void>& work : works) work.wait();
  }
  ~WholeStages() {
    if (!sharded_) return;
    for (const auto& stage : stages_.stages()) sharded_->reshard(stage->index());
  }
  WholeStages(const WholeStages&) = delete;
  WholeStages& operator=(const WholeStages&) = delete;

 private:
  ShardedParameters* sharded_;
  const RankStages& stages_;
};

}  // namespace

Evaluator::Evaluator(const Program& trained, RankStages& stages, Transport& transport,
                     const RunGroups& groups, const ModelEnd& end, const RunOptions& options,
                     const std::vector<ExecutorObserver*>& observers, ShardedParameters* sharded)
    : trained_(trained),
      stages_(stages),
      transport_(transport),
      groups_(groups),
      end_(end),
      options_(options),
      observers_(observers),
      sharded_(sharded) {}

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
  lowering.shard_parameters = trained_.mesh.size(Axis::kDpShard) > 1;
  const Schedule schedule = make_forward_schedule(trained_.stage_map, kind.num_microbatches);
  Program program = lower(schedule, lowering);
  program.mesh = trained_.mesh;
  if (runners_.size() == kMostPrograms) runners_.pop_back();
  runners_.emplace_front(kind, std::move(program), stages_, no_ties_, transport_, groups_, end_,
                         options_, observers_);
  return runners_.front().step;
}

StepResult Evaluator::run(const StepBatch& batch, const StepOptions& options) {
  const WholeStages whole(sharded_, stages_);
  if (batch.microbatches.size() == 0 && groups_.num_replicas > 1) {
    // The other replicas have something to tell.
    losses_ = post_losses(groups_.world, nullptr, StepRequest::kNone).wait().of_microbatches;
    return {};
  }
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
