// Makes every program that runs for a plan: training steps (optionally with gathered outputs),
// evaluations, and the update by a caller's optimizer.
#pragma once

#include <optional>

#include "sluice/plan.h"

namespace sluice::detail {

// The options from which the plan's training step is lowered.
LowerOptions lowering_of(const Plan& plan);

// Selects one of a plan's programs.
struct StepProgram {
  bool gathers_outputs = false;
  // The number of microbatches of an evaluation. Without a value, a training step.
  std::optional<int> forwards = {};
  bool has_loss = true;  // false: the program only returns outputs
  // Only the update by a caller's optimizer, for plans whose steps end with gradients.
  bool update_only = false;
  friend bool operator==(const StepProgram&, const StepProgram&) = default;
};

// Lowers the program without verifying it. The plan needs schedule, partition and
// Plan::program.mesh.
Program step_program(const Plan& plan, const StepProgram& which);
// Lowers and verifies the program.
Program proven_step_program(const Plan& plan, const StepProgram& which);

}  // namespace sluice::detail
