// REDUCE_LOSS on every rank, above the norm and the update. Behind all compute, as the tied sums:
// the same order everywhere cannot deadlock, and no rank waits before the end of its row.
#include <algorithm>

#include "sluice/program.h"

namespace sluice {

Program add_loss_reduction(Program program) {
  for (std::vector<Action>& row : program.ranks) {
    const auto end_of_step = std::find_if(row.begin(), row.end(), [](const Action& action) {
      return action.kind == ActionKind::kReduceNorm || action.kind == ActionKind::kOptimizerStep;
    });
    row.insert(end_of_step, Action::make(ActionKind::kReduceLoss));
  }
  return program;
}

}  // namespace sluice
