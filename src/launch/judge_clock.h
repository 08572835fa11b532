// Time as a judge of others' silence counts it: while the judge itself did not run (it was stopped,
// or the machine was busy) others could not be heard, so that this time is left out.
// Thread-safety: for one thread.
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice {

class JudgeClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit JudgeClock(Clock::time_point now) : last_(now) {}

  // longest: a judge that runs comes here at least that often.
  void tick(Clock::time_point now, Clock::duration longest) {
    counted_ += std::min<Clock::duration>(now - last_, longest);
    last_ = now;
  }
  Clock::duration counted() const { return counted_; }

 private:
  Clock::time_point last_;
  Clock::duration counted_{0};
};

// The time after which each side of a control line says that it lives, and the time after which it
// looks at the other. A judge that looks less often than longest_look() was stopped.
inline std::chrono::milliseconds beat_period(std::chrono::milliseconds heartbeat) {
  using std::chrono::milliseconds;
  return std::clamp(heartbeat / 5, milliseconds(5), milliseconds(1000));
}
inline std::chrono::milliseconds look_period(std::chrono::milliseconds heartbeat) {
  using std::chrono::milliseconds;
  return std::clamp(heartbeat / 10, milliseconds(5), milliseconds(100));
}
inline std::chrono::milliseconds longest_look(std::chrono::milliseconds heartbeat) {
  using std::chrono::milliseconds;
  return std::max(heartbeat / 4, milliseconds(1));
}

}  // namespace sluice
