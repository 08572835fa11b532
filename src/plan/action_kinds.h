// Questions about an action and its kind alone: its halves, what it makes, whether it names a
// stage.
//
// Thread-safety: pure functions.
#pragma once

#include "sluice/parts/action.h"
#include "sluice/parts/flow.h"

namespace sluice::detail {

// Calls visit(F, B, I or W action) for a compute action, twice for a pair: forward first.
template <typename Visit>
void for_each_half(const Action& action, Visit&& visit) {
  if (action.kind == ActionKind::kOverlap) {
    visit(action.overlap_forward());
    visit(action.overlap_backward());
  } else if (is_compute(action.kind)) {
    visit(action);
  }
}

inline bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}
inline bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}
inline bool is_send(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
inline bool is_recv(ActionKind kind) {
  return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
}
// The kind of channel of a transfer, and of the value that a compute action but W takes and makes.
inline ChannelKind channel_kind_of(ActionKind kind) {
  const bool is_activation = kind == ActionKind::kForward || kind == ActionKind::kSendForward ||
                             kind == ActionKind::kRecvForward;
  return is_activation ? ChannelKind::kActivation : ChannelKind::kGradient;
}

// True if an action of this kind names a stage of the program.
inline bool names_stage(ActionKind kind) {
  return is_compute(kind) || is_transfer(kind) || kind == ActionKind::kUnshard ||
         kind == ActionKind::kReshard || kind == ActionKind::kReduceGrad ||
         kind == ActionKind::kUpdate || kind == ActionKind::kPartialNorm;
}

// True if ranks of one program meet in it; a collective that spans other axes alone is the same row
// on all.
inline bool is_collective(ActionKind kind) { return is_post(kind) && axes_of(kind).has(Axis::kPp); }

}  // namespace sluice::detail
