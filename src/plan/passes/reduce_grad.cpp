#include "plan/neighbours.h"

#include "plan/passes/passes.h"

namespace sluice {

Program add_reduce_grad(Program program, bool per_microbatch) {
  detail::require_in_range(program);
  std::vector<int> gradients(static_cast<std::size_t>(program.num_stages())), all;
  for (int stage = 0; stage < program.num_stages(); ++stage) {
    all.push_back(program.flow.num_passing(stage, program.num_microbatches));
  }
  for (std::vector<Action>& row : program.ranks) {
    std::vector<Action> reduced;
    reduced.reserve(row.size() + 8);
    for (const Action& action : row) {
      reduced.push_back(action);
      detail::for_each_half(action, [&](const Action& half) {
        if (!detail::makes_weight_gradient(half.kind)) return;
        if (per_microbatch) {
          reduced.push_back(Action::make(ActionKind::kReduceGrad, half.stage, half.microbatch));
        } else if (++gradients[half.stage] == all[half.stage]) {
          reduced.push_back(Action::make(ActionKind::kReduceGrad, half.stage));
        }
      });
    }
    // Resetting the stages of all ranks would take quadratic time.
    for (const Action& action : row) {
      detail::for_each_half(action, [&](const Action& half) { gradients[half.stage] = 0; });
    }
    row = std::move(reduced);
  }
  return program;
}

}  // namespace sluice
