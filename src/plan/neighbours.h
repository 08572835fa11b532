#pragma once

#include <string>
#include <vector>

#include "plan/action_kinds.h"
#include "plan/channel.h"
#include "sluice/program.h"

namespace sluice::detail {

inline bool exchanges(const Program& program, int stage, int neighbour) {
  const int here = program.stage_map.rank_of(stage), there = program.stage_map.rank_of(neighbour);
  return here >= 0 && there >= 0 && here != there;
}

inline int peer_stage(const Program& program, const Action& transfer) {
  const ChannelKind kind = channel_kind_of(transfer.kind);
  return is_send(transfer.kind)
             ? program.flow.destination(kind, transfer.stage, transfer.microbatch)
             : program.flow.source(kind, transfer.stage, transfer.microbatch);
}

inline Channel channel_of(const Program& program, const Action& transfer) {
  const int here = program.stage_map.rank_of(transfer.stage);
  const int there = program.stage_map.rank_of(peer_stage(program, transfer));
  const ChannelKind kind = channel_kind_of(transfer.kind);
  return is_send(transfer.kind) ? Channel{here, there, kind} : Channel{there, here, kind};
}

// Returns the matching transfer: for a stage's SEND_F, the next stage's RECV_F.
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

// Numbers collectives: each tie group's REDUCE_TIED, then REDUCE_LOSS, GATHER_OUTPUTS and
// REDUCE_NORM. An unknown tie group has number -1.
inline int num_collectives(const Program& program) {
  return static_cast<int>(program.tie_groups.size()) + 3;
}
int number_of(const Program& program, const Action& collective);
// Returns the collective's ranks, ascending. Precondition: its number is not -1.
std::vector<int> members_of(const Program& program, const Action& collective);

// True if `user` must wait for `post`, an earlier asynchronous transfer or collective (or
// PARTIAL_NORM) of the same rank.
bool uses(const Program& program, const Action& user, const Action& post);

bool holds_transfers(const Program& program);
bool holds(const Program& program, ActionKind kind);
bool updates(const Program& program);

std::string location_text(const Program& program, int rank, int index);

// Throws Error(kInput) unless sizes agree and every stage, rank and microbatch is in range.
void require_in_range(const Program& program);

}  // namespace sluice::detail
