#include "sluice/parts/observers.h"

#include <ctime>

#include "engine/step_timer.h"
#include "plan/action_kinds.h"

namespace sluice {
namespace {

// Returns the field for an instruction's time without waits, or null for other().
double* share_of(ActionKind kind, StepTimes& times) {
  if (is_compute(kind)) return &times.compute;
  switch (kind) {
    case ActionKind::kSendForward:
    case ActionKind::kSendBackward:
      return &times.wait_send;
    case ActionKind::kRecvForward:
    case ActionKind::kRecvBackward:
      return &times.wait_receive;
    case ActionKind::kUpdate:
    case ActionKind::kOptimizerStep:
      return &times.optimizer;
    case ActionKind::kIdle:
      return nullptr;
    default:
      return &times.reduction;
  }
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void StepTimer::begin_step(std::int64_t /*step*/) {
  times_ = {};
  cpu_start_.reset();
  step_start_ = Clock::now();
}

void StepTimer::end_step() {
  count_cpu(false);
  times_.total = seconds_since(step_start_);
}

void StepTimer::begin(int /*index*/, const Action& action) {
  waited_ = 0;
  count_cpu(is_compute(action.kind) || is_transfer(action.kind));
}

void StepTimer::end(int /*index*/, const Action& action) {
  if (double* share = share_of(action.kind, times_)) *share += recorder_.last_seconds() - waited_;
}

void StepTimer::count_cpu(bool counts) {
  if (counts == cpu_start_.has_value()) return;
  if (counts) {
    cpu_start_ = thread_cpu_seconds();
  } else {
    times_.compute_cpu += thread_cpu_seconds() - *cpu_start_;
    cpu_start_.reset();
  }
}

void StepTimer::begin_idle_work(const Action& /*action*/) {
  work_start_ = Clock::now();
  work_cpu_start_ = thread_cpu_seconds();
}

void StepTimer::end_idle_work(const Action& /*action*/) {
  const double seconds = seconds_since(work_start_);
  waited_ += seconds;
  times_.reduction += seconds;
  if (cpu_start_) *cpu_start_ += thread_cpu_seconds() - work_cpu_start_;
}

void StepTimer::members_came(const Action& /*action*/) {
  const double seconds = recorder_.last_wait();
  waited_ += seconds;
  times_.reduction += seconds;
}

void StepTimer::arrived(const Action& /*action*/, const std::vector<at::Tensor>& tensors) {
  const double seconds = recorder_.last_wait();
  waited_ += seconds;
  // A wait for asynchronous reductions brings no tensors. A message always does.
  (tensors.empty() ? times_.reduction : times_.wait_receive) += seconds;
}

}  // namespace sluice
