#include "plan/verify/traffic.h"

#include <unordered_map>
#include <utility>

#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

class Reader {
 public:
  explicit Reader(const Program& program) : program_(program) {}

  Traffic read() {
    traffic_.events.resize(program_.ranks.size());
    for (int rank = 0; rank < program_.num_ranks; ++rank) {
      for (const Action& action : program_.ranks[rank]) add(rank, action);
    }
    return std::move(traffic_);
  }

 private:
  void add(int rank, const Action& action) {
    std::vector<Event>& events = traffic_.events[rank];
    if (is_send(action.kind)) {
      events.push_back({Event::kSend, channel_of(action, rank, peer(action))});
    } else if (is_recv(action.kind)) {
      const std::int32_t channel = channel_of(action, peer(action), rank);
      traffic_.channels[channel].recv_events.push_back(static_cast<std::int32_t>(events.size()));
      events.push_back({Event::kRecv, channel});
    } else if (is_collective(action.kind)) {
      events.push_back({Event::kMeet, meeting_of(action)});
    }
  }

  int peer(const Action& transfer) const { return rank_of(program_, peer_stage(transfer)); }

  std::int32_t channel_of(const Action& transfer, int sender, int receiver) {
    const std::int64_t pair = static_cast<std::int64_t>(sender) * program_.num_ranks + receiver;
    const auto [entry, is_new] = channels_.try_emplace(2 * pair + is_activation(transfer.kind),
                                                       static_cast<std::int32_t>(channels_.size()));
    if (is_new) traffic_.channels.push_back({sender, receiver, {}});
    return entry->second;
  }

  std::int32_t meeting_of(const Action& collective) {
    const int key = collective.kind == ActionKind::kReduceNorm ? -1 : collective.stage;
    const auto [entry, is_new] =
        meetings_.try_emplace(key, static_cast<std::int32_t>(meetings_.size()));
    if (is_new) traffic_.meetings.push_back(members_of(program_, collective));
    return entry->second;
  }

  const Program& program_;
  Traffic traffic_;
  std::unordered_map<std::int64_t, std::int32_t> channels_;
  std::unordered_map<int, std::int32_t> meetings_;  // by tie group; -1: the norm
};

}  // namespace

Traffic read_traffic(const Program& program) { return Reader(program).read(); }

}  // namespace sluice::detail
