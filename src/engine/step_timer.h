// Where the time of a rank's step goes.
//
// Owns: the observer that adds up StepTimes; an executor has one of its own. Does not own:
// measuring instructions and waits (the flight recorder, which is told of every event before it),
// what a command adds around the row of instructions (docs/metrics.md).
//
// Invariants:
//  1. total = compute + wait_receive + wait_send + reduction + optimizer + other(): every moment
//     between begin_step() and end_step() is in one of them, and in one only.
// Thread-safety: one rank's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/flight_recorder.h"
#include "sluice/parts/observers.h"

namespace sluice {

class StepTimer final : public ExecutorObserver {
 public:
  explicit StepTimer(const FlightRecorder& recorder) : recorder_(recorder) {}

  // The times of the last step.
  const StepTimes& times() const { return times_; }

  void begin_step(std::int64_t step) override;
  void end_step() override;
  void begin(int index, const Action& action) override;
  void end(int index, const Action& action) override;
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void members_came(const Action& action) override;
  void begin_idle_work(const Action& action) override;
  void end_idle_work(const Action& action) override;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Counts the thread's CPU time from here on, or no longer.
  void count_cpu(bool counts);

  const FlightRecorder& recorder_;
  StepTimes times_;
  Clock::time_point step_start_, work_start_;
  double waited_ = 0;  // in this action, or at idle work
  // The thread's CPU clock when the run of compute and transfers began, plus idle work since. The
  // clock is a call into the kernel: it is read twice a run of instructions, not twice each.
  std::optional<double> cpu_start_;
  double work_cpu_start_ = 0;
};

}  // namespace sluice
