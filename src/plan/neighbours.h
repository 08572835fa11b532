// The neighbours in a program, who hand values to each other: the halves of an action, and the
// transfers between stages.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "plan/channel.h"
#include "sluice/program.h"

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

// Both stages live somewhere, on different ranks: what passes between them is a message.
inline bool exchanges(const Program& program, int stage, int neighbour) {
  const int here = program.stage_map.rank_of(stage), there = program.stage_map.rank_of(neighbour);
  return here >= 0 && there >= 0 && here != there;
}

// The stage at the other end of a transfer; Flow::kNone: there is none.
inline int peer_stage(const Program& program, const Action& transfer) {
  const ChannelKind kind = channel_kind_of(transfer.kind);
  return is_send(transfer.kind)
             ? program.flow.destination(kind, transfer.stage, transfer.microbatch)
             : program.flow.source(kind, transfer.stage, transfer.microbatch);
}

// The channel along which the message of a transfer goes.
inline Channel channel_of(const Program& program, const Action& transfer) {
  const int here = program.stage_map.rank_of(transfer.stage);
  const int there = program.stage_map.rank_of(peer_stage(program, transfer));
  const ChannelKind kind = channel_kind_of(transfer.kind);
  return is_send(transfer.kind) ? Channel{here, there, kind} : Channel{there, here, kind};
}

// The transfer that matches this one: SEND_F of a stage with RECV_F of its consumer, and so on.
inline Action counterpart(const Program& program, const Action& transfer) {
  const auto other = [&](ActionKind kind) {
    return Action::make(kind, peer_stage(program, transfer), transfer.microbatch);
  };
  switch (transfer.kind) {
    case ActionKind::kSendForward:
      return other(ActionKind::kRecvForward);
    case ActionKind::kRecvForward:
      return other(ActionKind::kSendForward);
    case ActionKind::kSendBackward:
      return other(ActionKind::kRecvBackward);
    default:
      return other(ActionKind::kSendBackward);
  }
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
// Collectives are numbered: REDUCE_TIED by its group, then REDUCE_LOSS,
// GATHER_OUTPUTS and REDUCE_NORM. -1: a group that the program does not have.
inline int num_collectives(const Program& program) {
  return static_cast<int>(program.tie_groups.size()) + 3;
}
int number_of(const Program& program, const Action& collective);
// The ranks that execute it, ascending. Precondition: number_of() is not -1.
std::vector<int> members_of(const Program& program, const Action& collective);

// True if an instruction uses what a post, or a PARTIAL_NORM, above it in its row began, and so
// waits for it (program.h).
bool uses(const Program& program, const Action& user, const Action& post);

bool holds_transfers(const Program& program);
bool holds(const Program& program, ActionKind kind);
// True if it updates parameters: by OPTIMIZER_STEP or by UPDATE.
bool updates(const Program& program);

// "rank 2, instruction 17 '1RECV_B3'".
std::string location_text(const Program& program, int rank, int index);

// Throws Error(kInput) unless the sizes agree and every stage, rank and microbatch is in range.
void require_in_range(const Program& program);

}  // namespace sluice::detail
