#include "job/last_weights.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/save_weights.h"
#include "sluice/error.h"
#include "sluice/parts/gradient_norm.h"
#include "sluice/parts/log.h"
#include "sluice/parts/rank_threads.h"

namespace sluice {
namespace {

// The most steps that a rank has finished, 0 when one has not begun to step.
std::int64_t steps_finished(const std::vector<std::unique_ptr<Trainer>>& trainers) {
  std::int64_t steps = 0;
  for (const auto& trainer : trainers) {
    if (!trainer) return 0;
    steps = std::max(steps, trainer->weights_step().value_or(0));
  }
  return steps;
}

std::string non_finite_weight(const Trainer& trainer) {
  for (const ParameterInfo& parameter : trainer.parameters()) {
    if (!std::isfinite(tensor_norm(parameter.tensor))) return parameter.name;
  }
  return {};
}

// Why the weights of `step` are no checkpoint, "" if they are one.
std::string reason_against(const std::vector<std::unique_ptr<Trainer>>& trainers,
                           std::int64_t step) {
  for (const auto& trainer : trainers) {
    if (trainer->weights_step() != step) return "some rank had not finished its update";
  }
  for (const auto& trainer : trainers) {
    if (const std::string name = non_finite_weight(*trainer); !name.empty())
      return "the parameter '" + name + "' is not finite";
  }
  return {};
}

}  // namespace

std::optional<LastWeights> save_last_weights(const RunConfig& config, const Plan& plan,
                                             const std::vector<std::unique_ptr<Trainer>>& trainers,
                                             const TransportOptions& transport) {
  const std::int64_t step = steps_finished(trainers);
  if (step == 0) return std::nullopt;
  const std::string weights = "the weights of step " + std::to_string(step);
  if (const std::string reason = reason_against(trainers, step); !reason.empty()) {
    log_warning(weights + " are not saved: " + reason);
    return std::nullopt;
  }
  try {
    std::string path;
    run_ranks(make_local_transports(static_cast<int>(trainers.size()), transport),
              static_cast<int>(config.training.threads_per_rank), nullptr, [&](Transport& own) {
                const Trainer& trainer = *trainers[static_cast<std::size_t>(own.rank())];
                const std::string saved =
                    save_weights(config.checkpoint.folder, step, trainer.parameters(),
                                 plan.model.config_text, config.model.path, own.world());
                if (own.rank() == 0) path = saved;
              });
    return LastWeights{step, path};
  } catch (const Error& error) {
    log_warning(weights + " could not be saved: " + error.what());
    return std::nullopt;
  }
}

}  // namespace sluice
