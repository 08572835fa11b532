// The learning rate as a function of the step.
// Thread-safety: pure function.
#pragma once

#include <cstdint>

#include "sluice/run_config.h"

namespace sluice {

// Step k of N, both 1-based, base rate lr, w = warmup_steps:
//   k <= w:     lr * k / w
//   k >  w:     t = (k - w) / (N - w), m = min_lr_factor
//     constant  lr
//     linear    lr * (1 - (1 - m) t)
//     cosine    lr * (m + (1 - m) (1 + cos(pi t)) / 2)     (arXiv 1608.03983)
// so that the rate at step N is lr * m. Throws Error(kUsage) for an unknown decay.
double learning_rate(std::int64_t step, std::int64_t num_steps, double base,
                     const LrSchedulerOptions& options);

}  // namespace sluice
