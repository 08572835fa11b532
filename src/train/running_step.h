// The refusal of calls that may not happen within a step of this thread's pipeline.
#pragma once

#include <thread>

namespace sluice {

// While it lives, a step runs on this thread.
class RunningStep {
 public:
  // call: "Pipeline::train_step". Throws as require_no_step().
  explicit RunningStep(const char* call);
  ~RunningStep();
  RunningStep(const RunningStep&) = delete;
  RunningStep& operator=(const RunningStep&) = delete;
};

// Throws Error(kUsage) naming `call` on another thread than `owner`.
void require_thread(std::thread::id owner, const char* call);

// Throws Error(kUsage) naming `call` while a step runs on this thread, of whatever pipeline.
void require_no_step(const char* call);

}  // namespace sluice
