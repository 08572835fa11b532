// Merges I and W into B, which traverses the autograd graph only once, as in torch's `_merge_bw`.
#include "sluice/program.h"

#include "plan/passes/passes.h"

namespace sluice {

Program merge_backward(Program program) {
  for (std::vector<Action>& row : program.ranks) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Action action = row[i];
      const bool merges = action.kind == ActionKind::kBackwardInput && i + 1 < row.size() &&
                          row[i + 1] == Action::backward_weight(action.stage, action.microbatch);
      row[kept++] = merges ? Action::backward(action.stage, action.microbatch) : action;
      if (merges) ++i;
    }
    row.resize(kept);
  }
  return program;
}

}  // namespace sluice
