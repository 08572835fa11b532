// Measures how long another process has been silent, without the time in which this process itself
// was stopped.
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice {

class SilenceClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SilenceClock(Clock::time_point now) : last_(now) {}

  // `longest`: longest time between calls while this process runs. Time beyond it is not counted.
  void tick(Clock::time_point now, Clock::duration longest) {
    counted_ += std::min<Clock::duration>(now - last_, longest);
    last_ = now;
  }
  Clock::duration counted() const { return counted_; }

 private:
  Clock::time_point last_;
  Clock::duration counted_{0};
};

// How often a process and the server send each other heartbeats, and how often they check for them.
// A process that checks less often than max_check_interval() was stopped.
inline std::chrono::milliseconds beat_period(std::chrono::milliseconds heartbeat) {
  using std::chrono::milliseconds;
  return std::clamp(heartbeat / 5, milliseconds(5), milliseconds(1000));
}
inline std::chrono::milliseconds check_interval(std::chrono::milliseconds heartbeat) {
  using std::chrono::milliseconds;
  return std::clamp(heartbeat / 10, milliseconds(5), milliseconds(100));
}
inline std::chrono::milliseconds max_check_interval(std::chrono::milliseconds heartbeat) {
  using std::chrono::milliseconds;
  return std::max(heartbeat / 4, milliseconds(1));
}

}  // namespace sluice
