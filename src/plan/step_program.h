// Makes a plan's programs: training steps, evaluations and separate weight updates.
#pragma once

#include <optional>

#include "sluice/plan.h"

namespace sluice::detail {

LowerOptions lowering_of(const Plan& plan);

struct StepProgram {
  bool gathers_outputs = false;
  // Number of microbatches to evaluate. If unset, the program is a training step.
  std::optional<int> forwards = {};
  bool has_loss = true;  // false: the program only returns outputs
  // True if only the user's optimizer runs, after steps that end with gradients.
  bool update_only = false;
  friend bool operator==(const StepProgram&, const StepProgram&) = default;
};

// Does not verify the program. Uses only the plan's schedule, partition and Plan::program.mesh.
Program step_program(const Plan& plan, const StepProgram& which);
Program proven_step_program(const Plan& plan, const StepProgram& which);

}  // namespace sluice::detail
