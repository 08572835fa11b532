// REDUCE_LOSS and GATHER_OUTPUTS follow all compute, so that no rank waits for them earlier. All
// ranks have them in the same order, to prevent deadlock.
#include <algorithm>

#include "sluice/program.h"

#include "plan/passes/passes.h"

namespace sluice {
namespace {

Program add_to_end_of_step(Program program, ActionKind kind) {
  for (std::vector<Action>& row : program.ranks) {
    const auto update = std::find_if(row.begin(), row.end(), [](const Action& action) {
      return action.kind == ActionKind::kReduceNorm || action.kind == ActionKind::kUpdate ||
             action.kind == ActionKind::kOptimizerStep;
    });
    row.insert(update, Action::make(kind));
  }
  return program;
}

}  // namespace

Program add_loss_reduction(Program program) {
  return add_to_end_of_step(std::move(program), ActionKind::kReduceLoss);
}

Program add_output_gathering(Program program) {
  return add_to_end_of_step(std::move(program), ActionKind::kGatherOutputs);
}

}  // namespace sluice
