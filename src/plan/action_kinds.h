#pragma once

#include "sluice/parts/action.h"
#include "sluice/parts/flow.h"

namespace sluice {

constexpr bool is_transfer(ActionKind kind) {
  return kind >= ActionKind::kSendForward && kind <= ActionKind::kRecvBackward;
}
// True for an instruction that only starts work (program.h).
inline bool is_post(ActionKind kind) {
  return kind == ActionKind::kUnshard ||
         (kind >= ActionKind::kReduceGrad && kind <= ActionKind::kUpdate);
}
// The mesh axes over which ranks communicate. Empty for compute and OPTIMIZER_STEP.
AxisSet axes_of(ActionKind kind);

// Appends to_text(action).
void append_text(const Action& action, std::string& out);

}  // namespace sluice

namespace sluice::detail {

// Calls visit() for each F (forward), B (backward), I (input gradient) or W (weight gradient) in
// `action`. An overlapped pair has two, forward first.
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
// Returns the kind of value that a transfer moves, or that F, B and I compute.
inline ChannelKind channel_kind_of(ActionKind kind) {
  const bool is_activation = kind == ActionKind::kForward || kind == ActionKind::kSendForward ||
                             kind == ActionKind::kRecvForward;
  return is_activation ? ChannelKind::kActivation : ChannelKind::kGradient;
}

inline bool names_stage(ActionKind kind) {
  return is_compute(kind) || is_transfer(kind) || kind == ActionKind::kUnshard ||
         kind == ActionKind::kReshard || kind == ActionKind::kReduceGrad ||
         kind == ActionKind::kUpdate || kind == ActionKind::kPartialNorm;
}

// True for collectives between pipeline ranks, not for those between replicas.
inline bool is_collective(ActionKind kind) { return is_post(kind) && axes_of(kind).has(Axis::kPp); }

}  // namespace sluice::detail
