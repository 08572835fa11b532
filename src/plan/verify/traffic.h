// Transfers and collectives of a verified program, and a replay of them under given rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/channel.h"
#include "sluice/error.h"
#include "sluice/program.h"

namespace sluice::detail {

struct Event {
  enum Kind : std::int32_t { kSend, kRecv, kCollective };
  Kind kind;
  std::int32_t target;  // index of the channel or collective
};

struct Traffic {
  std::vector<std::vector<Event>> events;  // [rank]
  std::vector<Channel> channels;
  std::vector<std::vector<std::int32_t>>
      recv_events;  // [channel]: indices of its RECVs in the receiver's events
  std::vector<std::vector<int>> collectives;  // [collective]: ranks
};

// Precondition: the program has transfers and no violations.
Traffic read_traffic(const Program& program, ChannelsPer channels_per);

// Returns the least channel capacity with which all ranks finish if SENDs wait for room.
int required_capacity(const Traffic& traffic);
// Returns the most messages ever in one channel, over all timings, if SENDs never wait.
int max_in_flight(const Traffic& traffic);

// Runs every rank's events to the end. Rules must have
//   bool try_run(Replay<Rules>&, int rank, Event)   returns false if the rank must wait for wake()
//   bool relax()                                    called if all ranks wait; true: try again
template <typename Rules>
class Replay {
 public:
  Replay(const Traffic& traffic, Rules& rules)
      : traffic_(traffic),
        rules_(rules),
        at_(traffic.events.size(), 0),
        is_queued_(traffic.events.size(), false) {}

  void wake(int rank) {
    if (is_queued_[rank]) return;
    is_queued_[rank] = true;
    runnable_.push_back(rank);
  }

  // Returns false if ranks are stuck.
  [[nodiscard]] bool run() {
    do {
      for (std::size_t rank = at_.size(); rank-- > 0;) {
        if (at_[rank] < traffic_.events[rank].size()) wake(static_cast<int>(rank));
      }
      // Run the last woken rank first, so that messages are received early.
      while (!runnable_.empty()) {
        const int rank = runnable_.back();
        runnable_.pop_back();
        is_queued_[rank] = false;
        const std::vector<Event>& events = traffic_.events[rank];
        while (at_[rank] < events.size() && rules_.try_run(*this, rank, events[at_[rank]])) {
          ++at_[rank];
        }
      }
    } while (!is_done() && rules_.relax());
    return is_done();
  }

  std::int32_t at(int rank) const { return static_cast<std::int32_t>(at_[rank]); }

 private:
  bool is_done() const {
    for (std::size_t rank = 0; rank < at_.size(); ++rank) {
      if (at_[rank] < traffic_.events[rank].size()) return false;
    }
    return true;
  }

  const Traffic& traffic_;
  Rules& rules_;
  std::vector<std::size_t> at_;
  std::vector<bool> is_queued_;
  std::vector<int> runnable_;
};

template <typename Rules>
void run_to_end(const Traffic& traffic, Rules& rules) {
  if (!Replay<Rules>(traffic, rules).run()) {
    throw Error(ErrorKind::kInternal,
                {.what = "a program that verify() accepts does not complete"});
  }
}

class Arrivals {
 public:
  explicit Arrivals(const Traffic& traffic)
      : traffic_(traffic),
        num_arrived_(traffic.collectives.size(), 0),
        waits_at_(traffic.events.size(), -1) {}

  // Returns true once all members have arrived. Calls on_complete(members) once.
  template <typename OnComplete>
  bool try_pass(int rank, int collective, OnComplete&& on_complete) {
    const std::vector<int>& members = traffic_.collectives[collective];
    const int all = static_cast<int>(members.size());
    if (num_arrived_[collective] == all) return true;
    if (waits_at_[rank] == collective) return false;
    waits_at_[rank] = collective;
    if (++num_arrived_[collective] < all) return false;
    on_complete(members);
    return true;
  }

 private:
  const Traffic& traffic_;
  std::vector<int> num_arrived_;
  std::vector<int> waits_at_;  // [rank]: collective at which it has arrived
};

}  // namespace sluice::detail
