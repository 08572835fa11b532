#include "plan/learning_rate.h"

#include <cmath>
#include <numbers>

#include "sluice/error.h"
#include "sluice/options.h"

namespace sluice {

std::int64_t warmup_steps_of(std::int64_t num_steps, const LearningRateOptions& options) {
  if (options.warmup_ratio == 0) return options.warmup_steps;
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(num_steps) * options.warmup_ratio));
}

double learning_rate(std::int64_t step, std::int64_t num_steps, double base,
                     const LearningRateOptions& options) {
  const std::int64_t warmup = warmup_steps_of(num_steps, options);
  if (step <= warmup) return base * static_cast<double>(step) / static_cast<double>(warmup);

  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(num_steps - warmup);
  const double floor = options.min_lr_factor;
  switch (options.decay) {
    case Decay::kConstant:
      return base;
    case Decay::kLinear:
      return base * (1.0 - (1.0 - floor) * progress);
    case Decay::kCosine:
      return base * (floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
  }
  throw Error(ErrorKind::kInternal, {.what = "the kind of learning-rate decay is unknown"});
}

}  // namespace sluice
