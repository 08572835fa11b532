// Measures the StepTimes of a rank. Thread-safety: one rank's thread.
#pragma once

#include <chrono>

#include "sluice/parts/executor.h"

namespace sluice {

class StepTimer final : public ExecutorObserver {
 public:
  const StepTimes& times() const { return times_; }

  void begin_step(std::int64_t step) override;
  void end_step() override;
  void begin(int index, const Action& action) override;
  void end(int index, const Action& action) override;
  void waiting(const Action& action) override;
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  StepTimes times_;
  Clock::time_point step_start_, action_start_, wait_start_;
  double waited_ = 0;  // in this action
};

}  // namespace sluice
