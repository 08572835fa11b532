#include "plan/neighbours.h"

#include "plan/passes/passes.h"

namespace sluice {
namespace {

bool serves_forward(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kSendForward:
    case ActionKind::kRecvForward:
    case ActionKind::kUnshard:
    case ActionKind::kReshard:
    case ActionKind::kReduceLoss:
    case ActionKind::kGatherOutputs:
      return true;
    default:
      return false;
  }
}

}  // namespace

Program keep_forward(Program program) {
  program.forward_only = true;
  program.tie_groups.clear();
  for (std::vector<Action>& row : program.ranks) {
    for (Action& action : row) {
      if (action.kind == ActionKind::kOverlap) action = action.overlap_forward();
    }
    std::erase_if(row, [](const Action& action) { return !serves_forward(action.kind); });
  }
  return program;
}

Program keep_update(Program program) {
  program.update_only = true;
  program.num_microbatches = 0;
  program.flow = Flow::chain(program.num_stages());
  program.tie_groups.clear();
  for (std::vector<Action>& row : program.ranks) row = {Action::make(ActionKind::kOptimizerStep)};
  return program;
}

}  // namespace sluice
