// Computes the most messages that can be in a channel at once. A channel is fullest right after a
// SEND, with the sender as far ahead of the receiver as the program allows. A receive must come
// before that SEND only if the sender depends on it: a chain of messages leads from the receive to
// the SEND. In some order of execution no other receive has happened yet, so the largest occupancy
// is exactly
//
//   max over SENDs k of a channel (k + 1 - receives that SEND k depends on).
//
// Each message carries its sender's vector clock (Mattern, "Virtual time and global states of
// distributed systems", 1989), which counts the events of other ranks that are certainly over.
// Clocks over all ranks would cost messages x ranks. Step 1 therefore bounds every channel by
// direct messages from receiver to sender. Step 2 runs clocks over some ranks at a time, in falling
// order of bounds, until no bound exceeds the result.
#include <algorithm>
#include <array>
#include <deque>
#include <numeric>

#include "plan/verify/traffic.h"

namespace sluice::detail {
namespace {

// Counts a channel's receives among its receiver's first `events_over` events, which must not
// decrease between calls.
class CoveredReceives {
 public:
  explicit CoveredReceives(const Traffic& traffic)
      : traffic_(traffic), covered_(traffic.channels.size(), 0) {}

  int count(int channel, std::int32_t events_over) {
    const std::vector<std::int32_t>& receives = traffic_.recv_events[channel];
    std::size_t& covered = covered_[channel];
    while (covered < receives.size() && receives[covered] < events_over) ++covered;
    return static_cast<int>(covered);
  }

 private:
  const Traffic& traffic_;
  std::vector<std::size_t> covered_;
};

// Step 1 of the file comment: upper bounds from direct messages.
class DirectBounds {
 public:
  explicit DirectBounds(const Traffic& traffic)
      : traffic_(traffic),
        arrivals_(traffic),
        covered_(traffic),
        sent_(traffic.channels.size(), 0),
        heard_(traffic.channels.size(), 0),
        messages_(traffic.channels.size()),
        backwards_(traffic.channels.size()),
        bounds_(traffic.channels.size(), 0) {
    std::vector<std::vector<int>> from(traffic.events.size());  // [sender]
    for (std::size_t i = 0; i < traffic.channels.size(); ++i) {
      from[traffic.channels[i].source].push_back(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < traffic.channels.size(); ++i) {
      for (const int back : from[traffic.channels[i].destination]) {
        if (traffic.channels[back].destination == traffic.channels[i].source) {
          backwards_[i].push_back(back);
        }
      }
    }
  }

  bool try_run(Replay<DirectBounds>& replay, int rank, Event event) {
    const int channel = event.target;
    switch (event.kind) {
      case Event::kSend:
        messages_[channel].push_back(replay.at(rank) + 1);
        bounds_[channel] =
            std::max(bounds_[channel], ++sent_[channel] - covered_.count(channel, heard_[channel]));
        replay.wake(traffic_.channels[channel].destination);
        return true;
      case Event::kRecv:
        if (messages_[channel].empty()) return false;
        for (const int back : backwards_[channel]) heard_[back] = messages_[channel].front();
        messages_[channel].pop_front();
        return true;
      case Event::kCollective:
        return arrivals_.try_pass(rank, event.target, [&](const std::vector<int>& members) {
          for (const int member : members) replay.wake(member);
        });
    }
    return false;
  }
  bool relax() { return false; }

  const std::vector<int>& bounds() const { return bounds_; }

 private:
  const Traffic& traffic_;
  Arrivals arrivals_;
  CoveredReceives covered_;
  std::vector<int> sent_;
  std::vector<std::int32_t> heard_;  // [channel]: receiver's events reported to the sender
  std::vector<std::deque<std::int32_t>>
      messages_;                             // [channel]: sender's completed events, per message
  std::vector<std::vector<int>> backwards_;  // [channel]: channels in the opposite direction
  std::vector<int> bounds_;
};

// Step 2 of the file comment: clocks that count `watched` ranks' events. Exact for channels to
// these ranks.
class Clocks {
 public:
  static constexpr std::size_t kWidth = 64;
  using Clock = std::array<std::int32_t, kWidth>;

  Clocks(const Traffic& traffic, const std::vector<int>& watched)
      : traffic_(traffic),
        arrivals_(traffic),
        covered_(traffic),
        slot_(traffic.events.size(), -1),
        clocks_(traffic.events.size(), Clock{}),
        shared_(traffic.events.size(), -1),
        sent_(traffic.channels.size(), 0),
        messages_(traffic.channels.size()) {
    for (std::size_t slot = 0; slot < watched.size(); ++slot) {
      slot_[watched[slot]] = static_cast<int>(slot);
    }
  }

  bool try_run(Replay<Clocks>& replay, int rank, Event event) {
    switch (event.kind) {
      case Event::kSend:
        send(replay.at(rank), event.target);
        replay.wake(traffic_.channels[event.target].destination);
        return true;
      case Event::kRecv:
        return try_receive(rank, event.target);
      case Event::kCollective:
        return arrivals_.try_pass(rank, event.target,
                                  [&](const std::vector<int>& members) { join(replay, members); });
    }
    return false;
  }
  bool relax() { return false; }

  int largest() const { return largest_; }

 private:
  struct Message {
    std::int32_t copy;
    std::int32_t events_over;  // completed events of the sender
  };

  void send(std::int32_t at, int channel) {
    const int sender = traffic_.channels[channel].source;
    const int receiver = traffic_.channels[channel].destination;
    if (shared_[sender] < 0) shared_[sender] = make_copy(clocks_[sender]);
    ++users_[shared_[sender]];
    messages_[channel].push_back({shared_[sender], at + 1});
    ++sent_[channel];
    if (slot_[receiver] < 0) return;
    const int received = covered_.count(channel, clocks_[sender][slot_[receiver]]);
    largest_ = std::max(largest_, sent_[channel] - received);
  }

  bool try_receive(int rank, int channel) {
    if (messages_[channel].empty()) return false;
    const Message message = messages_[channel].front();
    messages_[channel].pop_front();
    Clock& clock = clocks_[rank];
    merge(clock, pool_[message.copy]);
    const int slot = slot_[traffic_.channels[channel].source];
    if (slot >= 0) clock[slot] = std::max(clock[slot], message.events_over);
    release(message.copy);
    forget_copy(rank);
    return true;
  }

  void join(Replay<Clocks>& replay, const std::vector<int>& members) {
    Clock all{};
    for (const int member : members) {
      merge(all, clocks_[member]);
      const int slot = slot_[member];
      if (slot >= 0) all[slot] = std::max(all[slot], replay.at(member));
    }
    for (const int member : members) {
      clocks_[member] = all;
      forget_copy(member);
      replay.wake(member);
    }
  }

  static void merge(Clock& into, const Clock& from) {
    for (std::size_t i = 0; i < kWidth; ++i) into[i] = std::max(into[i], from[i]);
  }

  // A rank's SENDs share a copy of its clock until the clock changes.
  std::int32_t make_copy(const Clock& clock) {
    if (free_.empty()) {
      pool_.push_back(clock);
      users_.push_back(1);
      return static_cast<std::int32_t>(pool_.size()) - 1;
    }
    const std::int32_t copy = free_.back();
    free_.pop_back();
    pool_[copy] = clock;
    users_[copy] = 1;
    return copy;
  }
  void release(std::int32_t copy) {
    if (--users_[copy] == 0) free_.push_back(copy);
  }
  void forget_copy(int rank) {
    if (shared_[rank] >= 0) release(shared_[rank]);
    shared_[rank] = -1;
  }

  const Traffic& traffic_;
  Arrivals arrivals_;
  CoveredReceives covered_;
  std::vector<int> slot_;             // [rank]: index in each clock; -1: not watched
  std::vector<Clock> clocks_;         // [rank]
  std::vector<std::int32_t> shared_;  // [rank]: current copy of its clock; -1: none
  std::vector<int> sent_;
  std::vector<std::deque<Message>> messages_;
  std::vector<Clock> pool_;
  std::vector<int> users_;  // [copy]: references
  std::vector<std::int32_t> free_;
  int largest_ = 0;
};

}  // namespace

int max_in_flight(const Traffic& traffic) {
  DirectBounds direct(traffic);
  run_to_end(traffic, direct);
  std::vector<int> order(traffic.channels.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return direct.bounds()[a] > direct.bounds()[b]; });

  int largest = 0;
  std::vector<bool> is_known(traffic.events.size(), false);  // [rank]: watched so far
  for (std::size_t next = 0; next < order.size();) {
    std::vector<int> watched;
    for (; next < order.size() && watched.size() < Clocks::kWidth; ++next) {
      if (direct.bounds()[order[next]] <= largest) break;
      const int receiver = traffic.channels[order[next]].destination;
      if (!is_known[receiver]) watched.push_back(receiver);
      is_known[receiver] = true;
    }
    if (watched.empty()) break;
    Clocks clocks(traffic, watched);
    run_to_end(traffic, clocks);
    largest = std::max(largest, clocks.largest());
  }
  return largest;
}

}  // namespace sluice::detail
