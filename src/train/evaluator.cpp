#include "train/evaluator.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "train/step_loss.h"

namespace sluice {
namespace {

class EvaluationMode {
 public:
  explicit EvaluationMode(const RankStages& stages) {
    for (const auto& stage : stages.stages()) {
      for (auto& module : stage->chunk().modules()) {
        modes_.emplace_back(module, module->is_training());
      }
    }
    for (auto& [module, is_training] : modes_) module->eval();
  }
  ~EvaluationMode() {
    // train() also sets submodules, which the list restores later
    for (auto& [module, is_training] : modes_) module->train(is_training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

// Gathers parameters that zero3 shards before a run, because replicas may run different programs.
class WholeStages {
 public:
  explicit WholeStages(const RankModel& rank) : rank_(rank) {
    if (!rank_.sharded) return;
    std::vector<Work<void>> works;
    for (const auto& stage : rank_.stages.stages())
      works.push_back(rank_.sharded->unshard(stage->index()));
    for (Work<void>& work : works) work.wait();
  }
  ~WholeStages() {
    if (!rank_.sharded) return;
    for (const auto& stage : rank_.stages.stages()) rank_.sharded->reshard(stage->index());
  }
  WholeStages(const WholeStages&) = delete;
  WholeStages& operator=(const WholeStages&) = delete;

 private:
  const RankModel& rank_;
};

}  // namespace

Evaluator::Evaluator(std::unique_ptr<EvaluationModel> other, const Plan& plan, RankModel& rank,
                     Transport& transport, const ModelEnd& end, const RunOptions& options,
                     const std::vector<ExecutorObserver*>& observers)
    : other_(std::move(other)),
      plan_(other_ ? other_->plan() : plan),
      rank_(other_ ? other_->share() : rank),
      transport_(transport),
      end_(other_ ? other_->end() : end),
      without_loss_(end_.without_loss()),
      options_(options),
      observers_(observers) {}

StepRunner& Evaluator::runner_for(const detail::StepProgram& program) {
  if (other_) other_->take_weights();
  const auto found = std::find_if(runners_.begin(), runners_.end(),
                                  [&](const Runner& runner) { return runner.program == program; });
  if (found != runners_.end()) {
    runners_.splice(runners_.begin(), runners_, found);
    return found->step;
  }
  if (runners_.size() == kMostPrograms) runners_.pop_back();
  runners_.emplace_front(program, detail::proven_step_program(plan_, program), rank_, transport_,
                         program.has_loss ? end_ : without_loss_, options_, observers_, nobodys_);
  return runners_.front().step;
}

StepResult Evaluator::run(const StepBatch& batch, const StepOptions& options) {
  const WholeStages whole(rank_);
  if (batch.microbatches.size() == 0) {
    // Join the collective without a batch, because other replicas may have losses.
    losses_ = post_losses(rank_.groups.world, nullptr, StepRequest::kNone).wait().of_microbatches;
    return {};
  }
  const EvaluationMode mode(rank_.stages);
  StepRunner& runner = runner_for({.gathers_outputs = options.outputs == OutputRanks::kAll,
                                   .forwards = static_cast<int>(batch.microbatches.size())});
  StepResult result = runner.run(batch, options);
  losses_ = runner.losses();
  return result;
}

std::vector<Values> Evaluator::predict(const StepBatch& batch, OutputRanks ranks) {
  const WholeStages whole(rank_);
  const EvaluationMode mode(rank_.stages);
  StepRunner& runner = runner_for({.gathers_outputs = ranks == OutputRanks::kAll,
                                   .forwards = static_cast<int>(batch.microbatches.size()),
                                   .has_loss = false});
  return std::move(runner.run(batch, {.outputs = ranks}).outputs);
}

std::string Evaluator::flight_record() const {
  return runners_.empty() ? "" : runners_.front().step.executor().flight_record();
}

}  // namespace sluice
