// A program of a pipeline with all that runs it: for training, or for evaluations of one number of
// microbatches. Several share the stages of a rank and take turns.
//
// Owns: the program, its executor, what ends its steps. Does not own: stages, `.grad`.
// Thread-safety: one rank's thread.
#pragma once

#include <compare>
#include <vector>

#include "sluice/parts/executor.h"
#include "sluice/pipeline.h"
#include "train/gradient_ops.h"
#include "train/output_watch.h"

namespace sluice {

// What a runner is for.
struct StepKind {
  bool trains = false;
  bool gathers_outputs = false;
  int num_microbatches = 0;

  friend auto operator<=>(const StepKind&, const StepKind&) = default;
};

class StepRunner {
 public:
  // Proves the program. References must outlive it.
  StepRunner(Program program, RankStages& stages, const std::vector<SharedParameter>& parameters,
             Transport& transport, const Model& model, const RunOptions& options,
             const std::vector<ExecutorObserver*>& observers);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  StepResult run(const StepBatch& batch, const StepOptions& options);
  // After a run: gradients of ties within this rank are sums, too.
  void finish_ties() { ops_.finish_ties(); }

 private:
  const Program program_;
  OutputWatch outputs_;
  GradientOps ops_;
  Executor executor_;
};

}  // namespace sluice
