// Splits B into I (input gradient) and W (weight gradient), so that a later pass can move W.
#include "sluice/program.h"

#include "plan/passes/passes.h"

namespace sluice {

Program split_backward(Program program) {
  for (std::vector<Action>& row : program.ranks) {
    std::vector<Action> split;
    split.reserve(row.size() + row.size() / 2);
    for (const Action& action : row) {
      if (action.kind == ActionKind::kBackward) {
        split.push_back(Action::backward_input(action.stage, action.microbatch));
        split.push_back(Action::backward_weight(action.stage, action.microbatch));
      } else {
        split.push_back(action);
      }
    }
    row = std::move(split);
  }
  return program;
}

}  // namespace sluice
