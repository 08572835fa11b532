// The last actions of one rank: what, when, how many bytes, in which state.
// Owns a ring; printing happens with an error. Thread-safety: one rank's thread; others may read
// after that thread has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/parts/executor_observer.h"

namespace sluice {

class FlightRecorder final : public ExecutorObserver {
 public:
  explicit FlightRecorder(std::size_t capacity) : entries_(capacity ? capacity : 1) {}

  void begin_step(std::int64_t step) override { step_ = step; }
  void begin(int index, const Action& action) override;
  void waiting(const Action& action) override;
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void sending(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void end(int index, const Action& action) override;
  void failed(int index, const Action& action) noexcept override;
  // One line an action, oldest first: "step 3  #17  1RECV_B3  done  0.12 ms  16.0 KiB".
  std::string text() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kRunning, kWaiting, kDone, kFailed };
  struct Entry {
    std::int64_t step = 0, bytes = 0;
    int index = 0;
    Action action;
    State state = State::kRunning;
    Clock::time_point start, stop;
  };
  void stop(State state);
  Entry& current() { return entries_[(count_ - 1) % entries_.size()]; }

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace sluice
