// Numbers of steps that depend on the data: training.epochs and intervals in epochs.
#pragma once

#include <cstdint>
#include <string>

#include "config/run_config.h"
#include "sluice/data.h"

namespace sluice {

// Sets training.steps if training.epochs is set, and the intervals in epochs.
void set_steps(RunConfig& config, const TokenData& data, const StepsDone& done = {});

// For example "60 steps = 2.4 epochs of 400 rows". Precondition: set_steps() was called.
std::string steps_text(const RunConfig& config, const TokenData& data, const StepsDone& done = {});

// Whether the number of steps changes the learning rate of a step.
bool depends_on_steps(const LearningRateOptions& options);

// Warns of a warm-up that does not end. Returns "" for none.
std::string warmup_warning(const RunConfig& config);

}  // namespace sluice
