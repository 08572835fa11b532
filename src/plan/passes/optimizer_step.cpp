// The end of a step: the global gradient norm, then the update, on every rank.
#include "sluice/program.h"

namespace sluice {

Program add_optimizer_step(Program program, bool with_norm) {
  for (std::vector<Action>& row : program.ranks) {
    if (with_norm) row.push_back(Action::make(ActionKind::kReduceNorm));
    row.push_back(Action::make(ActionKind::kOptimizerStep));
  }
  return program;
}

}  // namespace sluice
