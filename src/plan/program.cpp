#include "sluice/program.h"

#include <algorithm>
#include <utility>

#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "sluice/error.h"
#include "sluice/verify.h"

namespace sluice {
namespace {

using detail::holds;

Program apply_keep_forward(Program program, const LowerOptions&) {
  return keep_forward(std::move(program));
}
Program apply_keep_update(Program program, const LowerOptions&) {
  return keep_update(std::move(program));
}
Program apply_drop_frozen(Program program, const LowerOptions& options) {
  return drop_frozen(std::move(program), options.backwards);
}
Program apply_merge_backward(Program program, const LowerOptions&) {
  return merge_backward(std::move(program));
}
Program apply_unshard_reshard(Program program, const LowerOptions& options) {
  if (holds(program, ActionKind::kUnshard)) return program;
  return add_unshard_reshard(std::move(program), options.max_active_stages);
}
Program apply_reduce_grad(Program program, const LowerOptions& options) {
  if (holds(program, ActionKind::kReduceGrad)) return program;
  return add_reduce_grad(std::move(program), options.reduce_per_microbatch);
}
Program apply_transfers(Program program, const LowerOptions&) {
  if (detail::holds_transfers(program)) return program;
  return add_transfers(std::move(program));
}
Program apply_defer_receives(Program program, const LowerOptions&) {
  return defer_receives(std::move(program));
}
Program apply_tied_reductions(Program program, const LowerOptions& options) {
  if (holds(program, ActionKind::kReduceTied)) return program;
  return add_tied_reductions(std::move(program), options.tie_groups);
}
Program apply_loss_reduction(Program program, const LowerOptions&) {
  if (holds(program, ActionKind::kReduceLoss)) return program;
  return add_loss_reduction(std::move(program));
}
Program apply_output_gathering(Program program, const LowerOptions&) {
  if (holds(program, ActionKind::kGatherOutputs)) return program;
  return add_output_gathering(std::move(program));
}
Program apply_optimizer_step(Program program, const LowerOptions& options) {
  if (detail::updates(program)) return program;
  return add_optimizer_step(std::move(program), options.norm);
}
Program apply_partial_norms(Program program, const LowerOptions&) {
  if (holds(program, ActionKind::kPartialNorm)) return program;
  return add_partial_norms(std::move(program));
}
Program apply_split_optimizer_step(Program program, const LowerOptions&) {
  if (holds(program, ActionKind::kUpdate)) return program;
  return split_optimizer_step(std::move(program));
}

#ifdef NDEBUG
constexpr bool kCheckPasses = false;
#else
constexpr bool kCheckPasses = true;
#endif

}  // namespace

Program to_program(const Schedule& schedule) {
  Program program;
  program.num_microbatches = schedule.num_microbatches;
  program.stage_map = schedule.stage_map;
  program.flow = Flow::chain(schedule.num_stages());
  program.mesh = Mesh({.pp = std::max(1, schedule.num_ranks())});
  program.ranks.reserve(schedule.rows.size());
  for (const std::vector<Action>& row : schedule.rows) {
    std::vector<Action>& instructions = program.ranks.emplace_back();
    instructions.reserve(row.size());
    std::copy_if(row.begin(), row.end(), std::back_inserter(instructions),
                 [](const Action& action) { return action.kind != ActionKind::kIdle; });
  }
  return program;
}

std::vector<NamedPass> lowering_passes(const LowerOptions& options) {
  const bool trains = !options.forward_only;
  std::vector<NamedPass> passes;
  const auto add = [&](bool wanted, const char* name, auto apply) {
    if (wanted) passes.push_back({name, apply});
  };
  add(options.forward_only, "keep_forward", apply_keep_forward);
  add(options.update_only, "keep_update", apply_keep_update);
  add(!options.backwards.empty() && trains, "drop_frozen", apply_drop_frozen);
  add(options.merge_backward && trains, "merge_backward", apply_merge_backward);
  add(options.shard_parameters, "add_unshard_reshard", apply_unshard_reshard);
  add(options.reduce_gradients && trains, "add_reduce_grad", apply_reduce_grad);
  add(options.transfers, "add_transfers", apply_transfers);
  add(options.defer_receives, "defer_receives", apply_defer_receives);
  add(!options.tie_groups.empty() && trains, "add_tied_reductions", apply_tied_reductions);
  add(options.loss, "add_loss_reduction", apply_loss_reduction);
  add(options.outputs, "add_output_gathering", apply_output_gathering);
  add(options.optimizer_step && trains, "add_optimizer_step", apply_optimizer_step);
  add(options.partial_norms && trains, "add_partial_norms", apply_partial_norms);
  add(options.update_by_stage && trains, "split_optimizer_step", apply_split_optimizer_step);
  return passes;
}

Program lower(const Schedule& schedule, const LowerOptions& options) {
  Program program = to_program(schedule);
  bool proven = kCheckPasses && verify(program).ok();
  for (const NamedPass& pass : lowering_passes(options)) {
    program = pass.apply(std::move(program), options);
    if (!proven) continue;
    const VerifyReport report = verify(program);
    if (report.ok()) continue;
    throw Error(ErrorKind::kInternal, {.what = "pass '" + pass.name + "' broke a proven program: " +
                                               report.violations.front().reason});
  }
  return program;
}

}  // namespace sluice
