#pragma once

#include <thread>

namespace sluice {

class RunningStep {
 public:
  explicit RunningStep(const char* call);
  ~RunningStep();
  RunningStep(const RunningStep&) = delete;
  RunningStep& operator=(const RunningStep&) = delete;
};

void require_thread(std::thread::id owner, const char* call);

// Throws Error(kUsage) while a step of any pipeline runs on the calling thread.
void require_no_step(const char* call);

}  // namespace sluice
