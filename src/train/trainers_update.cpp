#include "train/trainers_update.h"

#include <ATen/ops/empty.h>

#include <cmath>

#include "checkpoint/load_state.h"
#include "checkpoint/torch_optimizer.h"
#include "engine/executor.h"
#include "optim/optimizers.h"
#include "plan/optimizer_state.h"
#include "plan/option_words.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

bool keeps(OptimizerKind kind, const std::string& name) {
  for (const StateKind& state : state_kinds(kind, at::empty({0})))
    if (name.starts_with(state.name + "/")) return true;
  return false;
}

std::string kind_that_keeps(const std::string& name) {
  for (const auto& [word, kind] : detail::words_of(OptimizerKind()))
    if (keeps(kind, name)) return word;
  return "another optimizer ('" + name + "')";
}

}  // namespace

TrainersUpdate::TrainersUpdate(const OptimizerOptions& options, RankModel& rank)
    : rank_(rank),
      norms_(rank.parameters, rank.shards_state ? &rank.owners : nullptr, rank.groups, rank.mesh),
      kind_(kind_of_state(options)),
      update_(options, rank),
      lr_(options.lr) {}

void TrainersUpdate::judge(StepResult& result) const {
  result.finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
}

void TrainersUpdate::loss_known(StepResult& result) {
  loss_known_ = true;
  judge(result);
}

IdleWork TrainersUpdate::partial_norm(int stage, const TiedSums& ties) {
  return norms_.of_stage(
      stage, [&ties](const SharedParameter& parameter) { return ties.is_summed(parameter); });
}

Work<void> TrainersUpdate::reduce_norm(TiedSums& ties, StepResult& result) {
  ties.sum_remaining_ties();
  return norms_.post().then([this, &result](GradientNorms norms) {
    result.grad_norm = norms.total;
    result.parameter_norms = std::move(norms.of_parameters);
    norm_known_ = true;
    judge(result);
  });
}

void TrainersUpdate::require_known(const char* instruction) const {
  if (loss_known_ && norm_known_) return;
  throw Error(ErrorKind::kInternal,
              {.what = std::string(instruction) + " without " +
                       (loss_known_ ? "REDUCE_NORM" : "REDUCE_LOSS") + " before it"});
}

// The gradients of all ties are summed before the first UPDATE, so clear() is safe.
Work<void> TrainersUpdate::update_stage(int index, TiedSums& ties, const StepResult& result) {
  is_updating_ = result.finite;
  Work<void> work = result.finite ? update_.run(index, lr_, result.grad_norm) : Work<void>::done();
  rank_.stage(index).clear_gradients();
  ties.clear();
  updated_.insert(index);
  return work;
}

Work<void> TrainersUpdate::update(int stage, TiedSums& ties, const StepResult& result) {
  require_known("UPDATE");
  return update_stage(stage, ties, result);
}

void TrainersUpdate::optimizer_step(TiedSums& ties, const StepResult& result) {
  require_known("OPTIMIZER_STEP");
  is_updating_ = result.finite;
  std::vector<Work<void>> works;
  for (const auto& stage : rank_.stages.stages()) {
    if (!updated_.contains(stage->index()))
      works.push_back(update_stage(stage->index(), ties, result));
  }
  for (Work<void>& work : works) work.wait();
}

void TrainersUpdate::begin_step() {
  loss_known_ = norm_known_ = false;
  updated_.clear();
}

void TrainersUpdate::end_step(std::int64_t step, const StepResult& result) {
  is_updating_ = false;
  if (result.finite) weights_step_ = step;
}

std::optional<std::int64_t> TrainersUpdate::weights_step() const {
  if (is_updating_) return std::nullopt;
  return weights_step_;
}

ShardedState TrainersUpdate::sharded_state() const {
  return {kind_, update_.optimizer(), rank_.parameters, rank_.owners};
}

NamedTensors TrainersUpdate::gather_state(const RunGroups& groups) const {
  return gather_whole(list_state(sharded_state(), groups), groups);
}

void TrainersUpdate::require_own_kind(const Checkpoint& checkpoint) const {
  const Manifest& manifest = checkpoint.manifest();
  const auto said = manifest.settings.find(kOptimizerSetting);
  std::string saved = said == manifest.settings.end() ? "" : said->second;
  const std::string own = detail::word_of(detail::words_of(kind_), kind_);
  for (const SavedTensor& tensor : manifest.optimizer) {
    if (!saved.empty()) break;
    if (!keeps(kind_, tensor.name)) saved = kind_that_keeps(tensor.name);
  }
  if (saved.empty() || saved == own) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "the checkpoint has the state of " + saved + ", not of " + own,
               .where = checkpoint.path(),
               .remedy = "use the `kind` of the run that saved it"});
}

std::vector<std::string> TrainersUpdate::load_state(const Checkpoint& checkpoint) {
  weights_step_ = checkpoint.manifest().step;
  return load_optimizer(
      checkpoint,
      parts_of(sharded_state(),
               rank_.shards_state ? std::optional<int>(rank_.groups.replica) : std::nullopt));
}

}  // namespace sluice
