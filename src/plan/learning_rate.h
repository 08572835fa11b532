#pragma once

#include <cstdint>

#include "sluice/options.h"

namespace sluice {

// Returns warmup_steps, or the steps of warmup_ratio, rounded up as in Hugging Face's Trainer.
std::int64_t warmup_steps_of(std::int64_t num_steps, const LearningRateOptions& options);

}  // namespace sluice
