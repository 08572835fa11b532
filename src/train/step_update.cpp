#include "train/step_update.h"

#include <cmath>

#include "checkpoint/load_state.h"
#include "run/executor.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"

namespace sluice {

StepUpdate::StepUpdate(const OptimizerOptions& options, RankModel& rank)
    : rank_(rank),
      norms_(rank.parameters, rank.shards_state ? &rank.owners : nullptr, rank.groups, rank.mesh),
      kind_(options.kind),
      update_(options, rank),
      lr_(options.lr) {}

void StepUpdate::judge(StepResult& result) const {
  result.finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
}

void StepUpdate::loss_known(StepResult& result) {
  loss_known_ = true;
  judge(result);
}

IdleWork StepUpdate::partial_norm(int stage, const TiedSums& ties) {
  return norms_.of_stage(
      stage, [&ties](const SharedParameter& parameter) { return ties.is_summed(parameter); });
}

Work<void> StepUpdate::reduce_norm(TiedSums& ties, StepResult& result) {
  ties.sum_others();
  return norms_.post().then([this, &result](GradientNorms norms) {
    result.grad_norm = norms.total;
    result.parameter_norms = std::move(norms.of_parameters);
    norm_known_ = true;
    judge(result);
  });
}

void StepUpdate::require_known(const char* instruction) const {
  if (loss_known_ && norm_known_) return;
  throw Error(ErrorKind::kInternal,
              {.what = std::string(instruction) + " without " +
                       (loss_known_ ? "REDUCE_NORM" : "REDUCE_LOSS") + " before it"});
}

// The step's gradients end with the first UPDATE: whatever ties there were is summed.
Work<void> StepUpdate::update_stage(int index, TiedSums& ties, const StepResult& result) {
  is_updating_ = result.finite;
  Work<void> work = result.finite ? update_.run(index, lr_, result.grad_norm) : Work<void>::done();
  rank_.stage(index).clear_gradients();
  ties.clear();
  updated_.insert(index);
  return work;
}

Work<void> StepUpdate::update(int stage, TiedSums& ties, const StepResult& result) {
  require_known("UPDATE");
  return update_stage(stage, ties, result);
}

void StepUpdate::optimizer_step(TiedSums& ties, const StepResult& result) {
  require_known("OPTIMIZER_STEP");
  is_updating_ = result.finite;
  std::vector<Work<void>> works;
  for (const auto& stage : rank_.stages.stages()) {
    if (!updated_.contains(stage->index()))
      works.push_back(update_stage(stage->index(), ties, result));
  }
  for (Work<void>& work : works) work.wait();
}

void StepUpdate::begin_step() {
  loss_known_ = norm_known_ = false;
  updated_.clear();
}

void StepUpdate::end_step(std::int64_t step, const StepResult& result) {
  is_updating_ = false;
  if (result.finite) weights_step_ = step;
}

std::optional<std::int64_t> StepUpdate::weights_step() const {
  if (is_updating_) return std::nullopt;
  return weights_step_;
}

ShardedState StepUpdate::sharded_state() const {
  return {kind_, update_.optimizer(), rank_.parameters, rank_.owners};
}

NamedTensors StepUpdate::gather_state(const RunGroups& groups) const {
  return gather_whole(list_state(sharded_state(), groups), groups);
}

std::vector<std::string> StepUpdate::load_state(const Checkpoint& checkpoint) {
  if (!rank_.shards_state) return load_optimizer(checkpoint, optimizer().state());
  return load_optimizer(checkpoint, parts_of(sharded_state(), rank_.groups.replica));
}

}  // namespace sluice
