#include "sluice/learning_rate.h"

#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "sluice/error.h"

namespace sluice {

double learning_rate(std::int64_t step, std::int64_t num_steps, double base,
                     const LrSchedulerOptions& options) {
  const auto warmup = options.warmup_steps;
  if (step <= warmup) return base * static_cast<double>(step) / static_cast<double>(warmup);

  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(num_steps - warmup);
  const double floor = options.min_lr_factor;
  if (options.decay == "constant") return base;
  if (options.decay == "linear") return base * (1.0 - (1.0 - floor) * progress);
  if (options.decay == "cosine") {
    return base * (floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
  }
  const std::array<std::string, 3> known = {"constant", "linear", "cosine"};
  throw Error(ErrorKind::kUsage, {.what = "unknown decay '" + options.decay + "'",
                                  .where = "lr_scheduler.decay",
                                  .remedy = suggest_name(options.decay, known)});
}

}  // namespace sluice
