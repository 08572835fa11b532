// The programs that a plan stands for: that of a training step, the same with outputs gathered,
// evaluations, and the update that a caller's optimizer makes after its steps. All that runs, in
// whatever class, comes from here.
//
// Does not own: the passes (program.h), the proof (verify.h). Thread-safety: pure functions.
#pragma once

#include <optional>

#include "sluice/plan.h"

namespace sluice::detail {

// Options for the rows of a plan's training step, by its split, its replicas and how a step ends.
LowerOptions lowering_of(const Plan& plan);

// The choice of one of a plan's programs.
struct StepProgram {
  bool gathers_outputs = false;
  // Forwards of so many microbatches, for an evaluation. None: a training step.
  std::optional<int> forwards = {};
  bool has_loss = true;  // else outputs alone
  // The update of a caller's optimizer, after steps that end with gradients.
  bool update_only = false;
  friend bool operator==(const StepProgram&, const StepProgram&) = default;
};

// Lowered, not proven. The plan has schedule, partition and mesh (Plan::program.mesh).
Program step_program(const Plan& plan, const StepProgram& which);
// The same, proven.
Program proven_step_program(const Plan& plan, const StepProgram& which);

}  // namespace sluice::detail
