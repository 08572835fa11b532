// Moves receives down to where they are needed, so that a pending one disturbs nothing: a RECV
// stays directly above the compute action that takes its value. On the lower rank of two that
// exchange, it also stays above the next SEND to that peer, so that of two ranks that send to each
// other one receives first. torch's `_defer_recv_ops`.
//
// A RECV takes along those above it on its channel: the order of a channel is that of its sends.
#include <deque>
#include <unordered_map>
#include <utility>

#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "plan/stage_microbatch_table.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class Deferral {
 public:
  explicit Deferral(const Program& program) : program_(program), pending_(program) {}

  std::vector<Action> defer(int rank) {
    std::vector<Action> result;
    result.reserve(program_.ranks[rank].size());
    for (const Action& action : program_.ranks[rank]) {
      if (detail::is_recv(action.kind)) {
        fifo_of(action).push_back({order_++, action});
        pending(action) = true;
        continue;
      }
      if (detail::is_send(action.kind)) {
        flush_peer(rank, detail::channel_of(program_, action).destination, result);
      }
      detail::for_each_half(action, [&](const Action& half) { flush_input(half, result); });
      result.push_back(action);
    }
    for (const auto& [channel, fifo] : deferred_) {
      if (fifo.empty()) continue;
      throw Error(ErrorKind::kInput,
                  {.what = "'" + to_text(fifo.front().action) + "' is received and never used",
                   .where = "rank " + std::to_string(rank),
                   .remedy = "see what is missing with 'sluice schedule --check'"});
    }
    deferred_.clear();
    return result;
  }

 private:
  struct Deferred {
    std::int64_t order;
    Action action;
  };
  using Fifo = std::deque<Deferred>;

  Fifo& fifo_of(const Action& recv) { return deferred_[detail::channel_of(program_, recv)]; }
  bool& pending(const Action& recv) {
    return pending_.at({recv.stage, recv.microbatch})[detail::channel_kind_of(recv.kind)];
  }

  void emit_front(Fifo& fifo, std::vector<Action>& result) {
    pending(fifo.front().action) = false;
    result.push_back(fifo.front().action);
    fifo.pop_front();
  }

  void flush_peer(int rank, int peer, std::vector<Action>& result) {
    if (rank >= peer) return;
    Fifo& activations = deferred_[{peer, rank, ChannelKind::kActivation}];
    Fifo& gradients = deferred_[{peer, rank, ChannelKind::kGradient}];
    while (!activations.empty() || !gradients.empty()) {
      const bool activation_first =
          gradients.empty() ||
          (!activations.empty() && activations.front().order < gradients.front().order);
      emit_front(activation_first ? activations : gradients, result);
    }
  }

  void flush_input(const Action& half, std::vector<Action>& result) {
    const bool forward = half.kind == ActionKind::kForward;
    if (!forward && !detail::makes_input_gradient(half.kind)) return;
    const Action recv = Action::make(forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward,
                                     half.stage, half.microbatch);
    if (!pending(recv)) return;
    Fifo& fifo = fifo_of(recv);
    while (pending(recv)) emit_front(fifo, result);
  }

  const Program& program_;
  detail::StageMicrobatchTable<detail::PerKind<bool>> pending_;  // a RECV is deferred
  std::unordered_map<detail::Channel, Fifo> deferred_;  // deferred receives of this rank, in order
  std::int64_t order_ = 0;
};

}  // namespace

Program defer_receives(Program program) {
  detail::require_in_range(program);
  Deferral deferral(program);
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    program.ranks[rank] = deferral.defer(rank);
  }
  return program;
}

}  // namespace sluice
