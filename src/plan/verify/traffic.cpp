#include "plan/verify/traffic.h"

#include <unordered_map>
#include <utility>

#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

class Reader {
 public:
  Reader(const Program& program, ChannelsPer channels_per)
      : program_(program), channels_per_(channels_per) {}

  Traffic read() {
    traffic_.events.resize(program_.ranks.size());
    for (int rank = 0; rank < program_.num_ranks(); ++rank) {
      for (const Action& action : program_.ranks[rank]) add(rank, action);
    }
    return std::move(traffic_);
  }

 private:
  void add(int rank, const Action& action) {
    std::vector<Event>& events = traffic_.events[rank];
    if (is_send(action.kind)) {
      events.push_back({Event::kSend, number_of_channel(action)});
    } else if (is_recv(action.kind)) {
      const std::int32_t channel = number_of_channel(action);
      traffic_.recv_events[channel].push_back(static_cast<std::int32_t>(events.size()));
      events.push_back({Event::kRecv, channel});
    } else if (is_collective(action.kind)) {
      events.push_back({Event::kCollective, number_of_collective(action)});
    }
  }

  std::int32_t number_of_channel(const Action& transfer) {
    const Channel channel = fifo_of(channel_of(program_, transfer), channels_per_);
    const auto [entry, is_new] =
        channels_.try_emplace(channel, static_cast<std::int32_t>(channels_.size()));
    if (is_new) {
      traffic_.channels.push_back(channel);
      traffic_.recv_events.emplace_back();
    }
    return entry->second;
  }

  std::int32_t number_of_collective(const Action& collective) {
    const auto [entry, is_new] = collectives_.try_emplace(
        number_of(program_, collective), static_cast<std::int32_t>(collectives_.size()));
    if (is_new) traffic_.collectives.push_back(members_of(program_, collective));
    return entry->second;
  }

  const Program& program_;
  ChannelsPer channels_per_;
  Traffic traffic_;
  std::unordered_map<Channel, std::int32_t> channels_;
  std::unordered_map<int, std::int32_t> collectives_;
};

}  // namespace

Traffic read_traffic(const Program& program, ChannelsPer channels_per) {
  return Reader(program, channels_per).read();
}

}  // namespace sluice::detail
