// A training run as a command makes it, from a configuration to an exit code: parse, plan, build,
// train, close. apps/sluice/train_command.cpp is the example.
//
// Owns: what a command adds to the library: the checks before anything is created, what is printed,
//   metrics.jsonl, requests to stop, what is kept of a run that failed, the exit code.
// Does not own: the configuration (run_config.h), the plan (plan.h), a step (trainer.h).
//
// Invariants:
//  1. A job that is refused, by its constructor, has created nothing.
//  2. Which ranks are threads of this process is decided in one place; nothing else assumes that it
//     is all of them, or which.
// Thread-safety: for the main thread.
#pragma once

#include <functional>
#include <memory>

#include "sluice/parts/stop_signal.h"
#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {

// Of a run that a signal stopped, its weights saved.
inline constexpr int kStoppedBySignal = 75;

class TrainingJob {
 public:
  // Opens the data and the headers of the weights; checks memory, folders and disk. plan: of this
  // configuration. config and stop must outlive the job. Throws Error: whatever is refused.
  TrainingJob(const RunConfig& config, Plan plan, StopSignal& stop);
  ~TrainingJob();

  // Trains until the last step or a request to stop, and saves the weights. When a rank fails, the
  // weights of the last finished step are saved, stderr gets what the ranks did last, and the
  // failure is thrown.
  void train();

  // After train(): the exit code, 0 or kStoppedBySignal. Throws the Error for which metrics.jsonl
  // was given up.
  int close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs `call`, which plans and trains. Memory that runs out where no rank is to blame becomes
// Error(kMemory) that says so.
int run_job(const std::function<int()>& call);

}  // namespace sluice
