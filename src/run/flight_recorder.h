// The last actions of one rank: what, when, how many bytes, in which state.
// Owns a ring; printing happens with an error. Thread-safety: one rank's thread; others may read
// after that thread has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/action.h"

namespace sluice {

class FlightRecorder {
 public:
  enum class State : std::uint8_t { kRunning, kWaiting, kDone, kFailed };

  explicit FlightRecorder(std::size_t capacity) : entries_(capacity ? capacity : 1) {}

  void begin(std::int64_t step, int index, const Action& action);
  void waiting() { current().state = State::kWaiting; }
  void running() { current().state = State::kRunning; }
  void add_bytes(std::int64_t bytes) { current().bytes += bytes; }
  void end(State state = State::kDone);
  // One line an action, oldest first: "step 3  #17  1RECV_B3  done  0.12 ms  16.0 KiB".
  std::string text() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::int64_t step = 0, bytes = 0;
    int index = 0;
    Action action;
    State state = State::kRunning;
    Clock::time_point start, stop;
  };
  Entry& current() { return entries_[(count_ - 1) % entries_.size()]; }

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace sluice
