// Measures how a rank spends a step's time. Reads times from the flight recorder, which must be an
// earlier observer.
//
// total = compute + wait_receive + wait_send + reduction + optimizer + other(). Every moment of a
// step is in exactly one of these.
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

  void count_cpu(bool counts);

  const FlightRecorder& recorder_;
  StepTimes times_;
  Clock::time_point step_start_, work_start_;
  double waited_ = 0;  // waits and idle work in this action
  // CPU time at the start of the current run of compute and transfers, plus idle work since.
  // Reading it is a system call, so we read twice per run, not per instruction.
  std::optional<double> cpu_start_;
  double work_cpu_start_ = 0;
};

}  // namespace sluice
