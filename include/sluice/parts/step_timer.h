// Where the time of a rank's step goes.
//
// Owns: StepTimes, and the observer that measures them (an executor has one of its own; a Pipeline
// takes one through RunOptions::observers). Does not own: what a command adds around the row of
// instructions (docs/metrics.md).
//
// Invariants:
//  1. total = compute + wait_receive + wait_send + reduction + optimizer + other(): every moment
//     between begin_step() and end_step() is in one of them, and in one only.
// Thread-safety: one rank's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "sluice/parts/executor_observer.h"

namespace sluice {

// Of one step on one rank, in seconds of its thread: a GPU is not waited for.
struct StepTimes {
  double total = 0;         // whole row
  double compute = 0;       // in F, B, I, W and pairs, less waiting
  double wait_receive = 0;  // of those for messages; in RECV
  double wait_send = 0;     // in SEND: handing over, and waiting where a transport makes it wait
  double reduction = 0;     // in REDUCE_*, UNSHARD, RESHARD, PARTIAL_NORM, wherever it is done, and
                            // waiting for what they began
  double optimizer = 0;     // in UPDATE and OPTIMIZER_STEP, less waiting
  // Not a share of total: what the rank's thread spent on a core in F, B, I, W and pairs. Unlike
  // `compute` it does not grow while the thread has no core.
  double compute_cpu = 0;

  // Between instructions.
  double other() const {
    return total - compute - wait_receive - wait_send - reduction - optimizer;
  }
};

class StepTimer final : public ExecutorObserver {
 public:
  // Of the last step.
  const StepTimes& times() const { return times_; }

  void begin_step(std::int64_t step) override;
  void end_step() override;
  void begin(int index, const Action& action) override;
  void end(int index, const Action& action) override;
  void waiting(const Action& action) override;
  void arrived(const Action& action, const std::vector<at::Tensor>& tensors) override;
  void begin_idle_work(const Action& action) override;
  void end_idle_work(const Action& action) override;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  StepTimes times_;
  Clock::time_point step_start_, action_start_, wait_start_, work_start_;
  double waited_ = 0;     // in this action, or at idle work
  double cpu_start_ = 0;  // of the thread, when the action began, less idle work
  double work_cpu_start_ = 0;
};

}  // namespace sluice
