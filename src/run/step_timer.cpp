#include "run/step_timer.h"

namespace sluice {

void StepTimer::begin_step(std::int64_t /*step*/) {
  times_ = {};
  step_start_ = Clock::now();
}

void StepTimer::end_step() { times_.total = seconds_since(step_start_); }

void StepTimer::begin(int /*index*/, const Action& action) {
  waited_ = 0;
  if (is_compute(action.kind)) action_start_ = Clock::now();
}

void StepTimer::end(int /*index*/, const Action& action) {
  if (is_compute(action.kind)) times_.compute += seconds_since(action_start_) - waited_;
  times_.waiting += waited_;
}

void StepTimer::waiting(const Action& /*action*/) { wait_start_ = Clock::now(); }

void StepTimer::arrived(const Action& /*action*/, const std::vector<at::Tensor>& /*tensors*/) {
  waited_ += seconds_since(wait_start_);
}

}  // namespace sluice
