#include "command/saves.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/log.h"
#include "comm/gather_messages.h"
#include "engine/rank_threads.h"
#include "optim/gradient_norm.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"
#include "train/pipeline_control.h"

namespace sluice {
namespace {

// A save's result, equal on all ranks. `step`: 0 if there is nothing to save. `reason`: why the
// step must not be saved.
struct Outcome {
  std::int64_t step = 0;
  std::string reason, path;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

std::string non_finite_weight(const Pipeline& pipeline) {
  for (const ParameterInfo& parameter : pipeline.named_parameters()) {
    if (!std::isfinite(tensor_norm(parameter.tensor))) return parameter.name;
  }
  return {};
}

// Returns the last step in this rank's weights, or 0 if this process finished none. Returns
// std::nullopt if the rank never started or an update failed halfway.
std::optional<std::int64_t> step_of(const InterruptedRank& left) {
  if (!left.trainer) return std::nullopt;
  const std::optional<std::int64_t> step = left.trainer->weights_step();
  return step == left.began_after ? 0 : step;
}

// Collective. Returns the most steps that a rank completed, or 0 if some rank never started. Sets
// `reason` if ranks hold different steps or a partial update.
std::int64_t steps_finished(const InterruptedRank& left, const Group& world, std::string& reason) {
  const std::optional<std::int64_t> own = step_of(left);
  bool all_began = true, all_same = true;
  std::optional<std::int64_t> first;
  std::int64_t most = 0;
  const Packer message =
      Packer().add(left.trainer != nullptr).add(own.has_value()).add(own.value_or(0));
  for (Unpacker& of_rank : gather_messages(world, message, "steps that were finished")) {
    all_began = of_rank.take<bool>() && all_began;
    const bool whole = of_rank.take<bool>();
    const auto step = of_rank.take<std::int64_t>();
    of_rank.finish();
    all_same = all_same && whole && step == first.value_or(step);
    first = step;
    most = std::max(most, step);
  }
  if (!all_same) reason = "some rank had not finished its update";
  return all_began ? most : 0;
}

std::int64_t steps_here(const PerRank<InterruptedRank>& interrupted) {
  std::int64_t most = 0;
  for (const auto& [rank, left] : interrupted) {
    if (!left.trainer) return 0;
    most = std::max(most, step_of(left).value_or(0));
  }
  return most;
}

// Collective. Returns "" if all weights are finite.
std::string first_non_finite_weight(const Pipeline& pipeline, const Group& world) {
  std::string first;
  for (Unpacker& of_rank :
       gather_messages(world, Packer().add(non_finite_weight(pipeline)), "finite weights")) {
    const auto name = of_rank.take<std::string>();
    of_rank.finish();
    if (first.empty()) first = name;
  }
  return first;
}

// Collective. Sets outcome.step first, so that the caller knows it if the save fails.
void save_on_all_ranks(const TargetOfStep& target, const InterruptedRank& left, const Group& world,
                       Outcome& outcome) {
  outcome.step = steps_finished(left, world, outcome.reason);
  if (outcome.step == 0) return;
  const std::optional<SaveOutcome> drained = left.saves->drain(world);
  if (!outcome.reason.empty()) return;
  if (drained && drained->step == outcome.step) {
    outcome.path = drained->path;
    return;
  }
  if (const std::string name = first_non_finite_weight(*left.pipeline, world); !name.empty()) {
    outcome.reason = formatted("the parameter '{}' is not finite", name);
    return;
  }
  const SaveOutcome saved =
      save_checkpoint(target(outcome.step), PipelineControl(*left.pipeline).state(world), world);
  if (saved.error) throw Error(*saved.error);
  outcome.path = saved.path;
}

}  // namespace

bool RankSaves::is_due(std::int64_t step, StepRequest request) const {
  return request == StepRequest::kSave || options_.interval.is_due(step);
}

// Memory for a copy of the weights is planned only if checkpoint.interval is set.
bool RankSaves::copies() const { return options_.async && options_.interval.is_on(); }

void RankSaves::settle(const SaveOutcome& outcome) {
  if (!outcome.error) {
    last_ = outcome;
    return;
  }
  if (options_.on_save_error == OnSaveError::kStop) throw Error(*outcome.error);
  if (warns_)
    log_warning(formatted("step {} is not saved: {}", outcome.step, outcome.error->what()));
}

void RankSaves::after_step(std::int64_t step, StepRequest request, const Group& world) {
  if (saver_.in_flight()) {
    if (const auto outcome = saver_.poll(world)) settle(*outcome);
  }
  if (!is_due(step, request)) return;
  if (saver_.in_flight()) settle(saver_.finish(world).value());
  const SaveFrom from = copies() ? SaveFrom::kCopy : SaveFrom::kLive;
  if (const auto failed =
          saver_.begin(target_(step), PipelineControl(pipeline_).state(), from, world)) {
    settle(*failed);
  } else if (from == SaveFrom::kLive) {
    settle(saver_.finish(world).value());
  }
}

std::string RankSaves::finish(std::int64_t step, const Group& world) {
  if (saver_.in_flight()) settle(saver_.finish(world).value());
  if (last_ && last_->step == step) return last_->path;
  SaveOutcome outcome = save_checkpoint(target_(step), PipelineControl(pipeline_).state(), world);
  if (outcome.error) throw Error(*outcome.error);
  last_ = std::move(outcome);
  return last_->path;
}

std::optional<SaveOutcome> RankSaves::drain(const Group& world) {
  std::optional<SaveOutcome> outcome = saver_.finish(world);
  if (outcome && outcome->error) outcome.reset();
  return outcome;
}

std::optional<LastWeights> save_last_weights(const TargetOfStep& target,
                                             const PerRank<InterruptedRank>& interrupted,
                                             const LocalRanks& ranks, int threads_per_rank) {
  PerRank<Outcome> outcomes(ranks);
  std::string warning;
  try {
    run_ranks(ranks.connect(), threads_per_rank, nullptr, [&](Transport& own) {
      save_on_all_ranks(target, interrupted.at(own.rank()), own.world(), outcomes.at(own.rank()));
    });
    const Outcome& outcome = agreed(outcomes, "the weights to save");
    if (outcome.step == 0) return std::nullopt;
    if (outcome.reason.empty()) return LastWeights{outcome.step, outcome.path};
    warning = "are not saved: " + outcome.reason;
  } catch (const Error& error) {
    warning = std::string("could not be saved: ") + error.what();
  }
  std::int64_t step = steps_here(interrupted);
  for (const auto& [rank, outcome] : outcomes) step = std::max(step, outcome.step);
  if (step > 0 && ranks.has_rank_zero())
    log_warning(formatted("the weights of step {} {}", step, warning));
  return std::nullopt;
}

}  // namespace sluice
