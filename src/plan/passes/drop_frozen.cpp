// Frozen parameters need no gradient. Stages before all trained ones need no backward:
//
//   0F0 0SEND_F0 .. 0RECV_B0 0B0     stage 0 frozen:   0F0 0SEND_F0
//   1RECV_F0 1F0 1B0 1SEND_B0        stage 1 trained:  1RECV_F0 1F0 1B0
//
// A stage without trained weights between trained ones runs only I. Both ends of a transfer are
// dropped together, and removing instructions cannot cause a deadlock.
#include "base/format.h"
#include "base/text.h"
#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "sluice/error.h"

namespace sluice {
namespace {

bool is_needed(const Action& action, StageBackward backward) {
  switch (action.kind) {
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kRecvBackward:
      return backward != StageBackward::kNone;
    case ActionKind::kBackwardWeight:
    case ActionKind::kReduceGrad:
      return has_weight_gradients(backward);
    case ActionKind::kSendBackward:
      return passes_gradients_on(backward);
    default:
      return true;
  }
}

ActionKind kind_in(ActionKind kind, StageBackward backward) {
  const bool input_only = kind == ActionKind::kBackward && backward == StageBackward::kInput;
  return input_only ? ActionKind::kBackwardInput : kind;
}

}  // namespace

Program drop_frozen(Program program, std::vector<StageBackward> backwards) {
  detail::require_in_range(program);
  if (backwards.size() != static_cast<std::size_t>(program.num_stages())) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the backward's parts are given for {} of {}",
                                   counted(static_cast<std::int64_t>(backwards.size()), "stage"),
                                   program.num_stages()),
                 .remedy = "give them for every stage, or for none"});
  }
  for (std::vector<Action>& row : program.ranks) {
    std::size_t kept = 0;
    for (Action action : row) {
      if (action.kind == ActionKind::kOverlap) {
        const StageBackward backward = backwards[action.backward_stage];
        if (backward == StageBackward::kNone)
          action = action.overlap_forward();
        else
          action.backward_kind = kind_in(action.backward_kind, backward);
      } else if (detail::names_stage(action.kind)) {
        const StageBackward backward = backwards[action.stage];
        if (!is_needed(action, backward)) continue;
        action.kind = kind_in(action.kind, backward);
      }
      row[kept++] = action;
    }
    row.resize(kept);
  }
  program.backwards = std::move(backwards);
  return program;
}

}  // namespace sluice
