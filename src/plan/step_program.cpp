#include "plan/step_program.h"

#include "plan/data_parallel.h"
#include "plan/trainable.h"

namespace sluice::detail {
namespace {

LowerOptions evaluation_lowering(const Plan& plan) {
  LowerOptions lowering;
  lowering.forward_only = true;
  lowering.loss = true;
  lowering.shard_parameters = plan.program.mesh.size(Axis::kDpShard) > 1;
  return lowering;
}

LowerOptions update_lowering(const Plan& plan) {
  LowerOptions lowering;
  lowering.update_only = true;
  lowering.backwards = backwards_of(plan.partition);
  lowering.transfers = false;
  lowering.update_by_stage = true;
  return lowering;
}

}  // namespace

LowerOptions lowering_of(const Plan& plan) {
  LowerOptions lowering;
  lowering.backwards = backwards_of(plan.partition);
  lowering.tie_groups = plan.partition.tie_groups;
  lowering.loss = true;
  lowering.outputs = plan.options.gathers_outputs;
  if (plan.options.step_end == StepEnd::kUpdate) {
    lowering.optimizer_step = lowering.norm = true;
    lowering.partial_norms = lowering.update_by_stage = true;
  }
  lowering.reduce_gradients = plan.options.hooked_reduction != HookedReduction::kNone;
  lowering.reduce_per_microbatch = plan.options.hooked_reduction == HookedReduction::kMicrobatch;
  set_lowering(plan.options.data_parallel, lowering);
  return lowering;
}

Program step_program(const Plan& plan, const StepProgram& which) {
  LowerOptions lowering = which.forwards      ? evaluation_lowering(plan)
                          : which.update_only ? update_lowering(plan)
                                              : lowering_of(plan);
  lowering.outputs |= which.gathers_outputs;
  lowering.loss = lowering.loss && which.has_loss;
  const Schedule schedule = which.forwards
                                ? make_forward_schedule(plan.partition.stage_map, *which.forwards)
                                : plan.schedule;
  Program program = lower(schedule, lowering);
  program.mesh = plan.program.mesh;
  return program;
}

Program proven_step_program(const Plan& plan, const StepProgram& which) {
  Program program = step_program(plan, which);
  require_verified(verify(program), "the program of a step");
  return program;
}

}  // namespace sluice::detail
