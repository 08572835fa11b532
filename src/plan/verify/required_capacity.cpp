// Ranks that wait only for messages and for room in bounded channels stop in the same state in any
// timing (Kahn, "The semantics of a simple language for parallel programming", 1974). If all ranks
// are stuck at capacity 1, we raise every capacity by one and resume (Parks, "Bounded scheduling of
// process networks", 1995). Each raise frees a SEND, so the total time is linear.
#include <utility>

#include "plan/verify/traffic.h"

namespace sluice::detail {
namespace {

class BoundedChannels {
 public:
  explicit BoundedChannels(const Traffic& traffic)
      : traffic_(traffic), arrivals_(traffic), held_(traffic.channels.size(), 0) {}

  bool try_run(Replay<BoundedChannels>& replay, int rank, Event event) {
    switch (event.kind) {
      case Event::kSend:
        if (held_[event.target] == capacity_) {
          lacks_room_ = true;
          return false;
        }
        ++held_[event.target];
        replay.wake(traffic_.channels[event.target].destination);
        return true;
      case Event::kRecv:
        if (held_[event.target] == 0) return false;
        --held_[event.target];
        replay.wake(traffic_.channels[event.target].source);
        return true;
      case Event::kCollective:
        return arrivals_.try_pass(rank, event.target, [&](const std::vector<int>& members) {
          for (const int member : members) replay.wake(member);
        });
    }
    return false;
  }

  bool relax() {
    ++capacity_;
    return std::exchange(lacks_room_, false);
  }

  int capacity() const { return capacity_; }

 private:
  const Traffic& traffic_;
  Arrivals arrivals_;
  std::vector<int> held_;
  int capacity_ = 1;
  bool lacks_room_ = false;
};

}  // namespace

int required_capacity(const Traffic& traffic) {
  if (traffic.channels.empty()) return 0;
  BoundedChannels rules(traffic);
  run_to_end(traffic, rules);
  return rules.capacity();
}

}  // namespace sluice::detail
