// Checks that compute actions follow their inputs, and SENDs their values. Missing or repeated
// instructions are reported elsewhere.
#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

class RowOrder {
 public:
  RowOrder(Verification& v, int rank) : v_(v), rank_(rank) {}

  void check(int index) {
    index_ = index;
    const Action& action = v_.program.ranks[rank_][index];
    if (is_compute(action.kind)) {
      for_each_half(action, [&](const Action& half) { check_half(half); });
    } else if (is_send(action.kind)) {
      check_send(action);
    }
  }

 private:
  // False for repeated, out-of-range or misplaced actions, which are reported elsewhere.
  bool counts(const Action& action) const {
    return action.microbatch >= 0 && action.microbatch < v_.program.num_microbatches &&
           v_.program.stage_map.rank_of(action.stage) == rank_ &&
           v_.instructions.find({action.stage, action.microbatch})[action.kind] == index_;
  }

  void check_half(const Action& half) {
    if (!counts(half)) return;
    const int stage = half.stage, microbatch = half.microbatch;
    const InstructionIndices& own = v_.instructions.find({stage, microbatch});
    if (half.kind == ActionKind::kForward) {
      need_from(v_.program.flow.producer(stage, microbatch), ActionKind::kRecvForward, half);
    } else if (half.kind == ActionKind::kBackwardWeight) {
      need(own[ActionKind::kBackwardInput]);
    } else {
      need(own[ActionKind::kForward]);
      need_from(v_.program.flow.consumer(stage, microbatch), ActionKind::kRecvBackward, half);
    }
  }

  // Requires the neighbouring stage's action before `half` if it is on this rank, otherwise a RECV.
  void need_from(int neighbour, ActionKind recv_kind, const Action& half) {
    if (v_.program.stage_map.rank_of(neighbour) == rank_) {
      const InstructionIndices& there = v_.instructions.find({neighbour, half.microbatch});
      need(half.kind == ActionKind::kForward ? there[ActionKind::kForward]
                                             : there.input_gradient());
      return;
    }
    if (!v_.with_transfers || v_.program.stage_map.rank_of(neighbour) < 0) return;
    const std::int32_t recv = v_.instructions.find({half.stage, half.microbatch})[recv_kind];
    if (recv == InstructionIndices::kAbsent) {
      v_.report(rank_, index_,
                "its input is never received: no " +
                    quote(Action::make(recv_kind, half.stage, half.microbatch)));
    } else {
      need(recv);
    }
  }

  void check_send(const Action& send) {
    if (!counts(send)) return;
    const InstructionIndices& own = v_.instructions.find({send.stage, send.microbatch});
    need(send.kind == ActionKind::kSendForward ? own[ActionKind::kForward] : own.input_gradient());
  }

  void need(std::int32_t index) {
    if (index < 0 || index < index_) return;
    if (index == index_) {
      v_.report(rank_, index_, "one half of the pair needs the result of the other");
    } else {
      v_.report(rank_, index_, "needs " + quote(v_.program, rank_, index) + " above it");
    }
  }

  Verification& v_;
  int rank_;
  int index_ = 0;
};

}  // namespace

void check_order(Verification& v) {
  for (int rank = 0; rank < v.program.num_ranks(); ++rank) {
    RowOrder order(v, rank);
    for (int index = 0; index < static_cast<int>(v.program.ranks[rank].size()); ++index) {
      order.check(index);
    }
  }
}

}  // namespace sluice::detail
