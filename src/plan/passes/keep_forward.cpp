// Evaluation runs the forwards of a training schedule in their order. What completes keeps
// completing: an order without a cycle has none after instructions are taken out of it. An update
// by itself runs none of it.
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
