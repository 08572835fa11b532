#include "job/last_weights.h"

#include <algorithm>
#include <cmath>

#include "comm/gather_messages.h"
#include "optim/gradient_norm.h"
#include "run/rank_threads.h"
#include "sluice/error.h"
#include "sluice/parts/log.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

// What all ranks come to: step 0 when there is nothing to save, a reason when what there is must
// not be, else the path.
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

// Collective. The most steps that a rank has finished, 0 when one has not begun to step. reason:
// set when some rank holds the weights of another step, or of none.
std::int64_t steps_finished(const Trainer* trainer, const Group& world, std::string& reason) {
  const std::optional<std::int64_t> own = trainer ? trainer->weights_step() : std::nullopt;
  bool all_began = true, all_same = true;
  std::optional<std::int64_t> first;
  std::int64_t most = 0;
  const WireWriter message =
      WireWriter().add(trainer != nullptr).add(own.has_value()).add(own.value_or(0));
  for (WireReader& of_rank : gather_messages(world, message, "steps that were finished")) {
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

// As far as the ranks here know.
std::int64_t steps_here(const PerRank<InterruptedRank>& interrupted) {
  std::int64_t most = 0;
  for (const auto& [rank, left] : interrupted) {
    if (!left.trainer) return 0;
    most = std::max(most, left.trainer->weights_step().value_or(0));
  }
  return most;
}

// Collective. The first of all ranks, "" for none.
std::string first_non_finite_weight(const Pipeline& pipeline, const Group& world) {
  std::string first;
  for (WireReader& of_rank :
       gather_messages(world, WireWriter().add(non_finite_weight(pipeline)), "finite weights")) {
    const auto name = of_rank.take<std::string>();
    of_rank.finish();
    if (first.empty()) first = name;
  }
  return first;
}

// Collective. outcome: kept up to date, so that its step is known when the rest fails.
void save_alike(const TargetOfStep& target, const InterruptedRank& left, const Group& world,
                Outcome& outcome) {
  outcome.step = steps_finished(left.trainer.get(), world, outcome.reason);
  if (outcome.step == 0) return;
  const std::optional<SaveOutcome> drained = left.saves->drain(world);
  if (!outcome.reason.empty()) return;
  if (drained && drained->step == outcome.step) {
    outcome.path = drained->path;
    return;
  }
  if (const std::string name = first_non_finite_weight(*left.pipeline, world); !name.empty()) {
    outcome.reason = "the parameter '" + name + "' is not finite";
    return;
  }
  const SaveOutcome saved =
      save_checkpoint(target(outcome.step), left.pipeline->state(world), world);
  if (saved.error) throw Error(*saved.error);
  outcome.path = saved.path;
}

}  // namespace

std::optional<LastWeights> save_last_weights(const TargetOfStep& target,
                                             const PerRank<InterruptedRank>& interrupted,
                                             const LocalRanks& ranks, int threads_per_rank) {
  PerRank<Outcome> outcomes(ranks);
  std::string warning;
  try {
    run_ranks(ranks.connect(), threads_per_rank, nullptr, [&](Transport& own) {
      save_alike(target, interrupted.at(own.rank()), own.world(), outcomes.at(own.rank()));
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
  if (step > 0 && ranks.has_speaker())
    log_warning("the weights of step " + std::to_string(step) + " " + warning);
  return std::nullopt;
}

}  // namespace sluice
