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
#include "sluice/error.h"

namespace sluice {
namespace {

class Deferral {
 public:
  explicit Deferral(const Program& program)
      : program_(program),
        pending_(2 * static_cast<std::size_t>(program.num_stages) * program.num_microbatches) {}

  std::vector<Action> defer(int rank) {
    std::vector<Action> result;
    result.reserve(program_.ranks[rank].size());
    for (const Action& action : program_.ranks[rank]) {
      if (detail::is_recv(action.kind)) {
        channel_of(action).push_back({order_++, action});
        pending(action) = true;
        continue;
      }
      if (detail::is_send(action.kind)) flush_peer(rank, peer_rank(action), result);
      detail::for_each_half(action, [&](const Action& half) { flush_input(half, result); });
      result.push_back(action);
    }
    for (const auto& [key, channel] : channels_) {
      if (channel.empty()) continue;
      throw Error(ErrorKind::kInput,
                  "'" + to_text(channel.front().action) + "' is received and never used",
                  "rank " + std::to_string(rank), "see what is missing with --check");
    }
    channels_.clear();
    return result;
  }

 private:
  struct Deferred {
    std::int64_t order;
    Action action;
  };
  using Channel = std::deque<Deferred>;

  int peer_rank(const Action& transfer) const {
    return detail::rank_of(program_, detail::peer_stage(transfer));
  }
  Channel& channel(int peer, bool activation) {
    return channels_[2 * static_cast<std::int64_t>(peer) + activation];
  }
  Channel& channel_of(const Action& recv) {
    return channel(peer_rank(recv), detail::is_activation(recv.kind));
  }
  std::vector<bool>::reference pending(const Action& recv) {
    const std::size_t pair =
        static_cast<std::size_t>(recv.stage) * program_.num_microbatches + recv.microbatch;
    return pending_[2 * pair + detail::is_activation(recv.kind)];
  }

  void emit_front(Channel& channel, std::vector<Action>& result) {
    pending(channel.front().action) = false;
    result.push_back(channel.front().action);
    channel.pop_front();
  }

  void flush_peer(int rank, int peer, std::vector<Action>& result) {
    if (rank >= peer) return;
    Channel& activations = channel(peer, true);
    Channel& gradients = channel(peer, false);
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
    Channel& channel = channel_of(recv);
    while (pending(recv)) emit_front(channel, result);
  }

  const Program& program_;
  std::vector<bool> pending_;
  std::unordered_map<std::int64_t, Channel> channels_;  // of this rank, by peer and kind
  std::int64_t order_ = 0;
};

}  // namespace

Program defer_receives(Program program) {
  detail::require_in_range(program);
  Deferral deferral(program);
  for (int rank = 0; rank < program.num_ranks; ++rank) {
    program.ranks[rank] = deferral.defer(rank);
  }
  return program;
}

}  // namespace sluice
