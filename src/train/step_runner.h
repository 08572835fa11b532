// A program of a pipeline with all that runs it: for training, or for evaluations of one number of
// microbatches. Several share the stages of a rank and take turns.
//
// Owns: the program, its executor, what ends its steps. Does not own: stages, `.grad`.
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <vector>

#include "sluice/parts/executor.h"
#include "sluice/pipeline.h"
#include "train/gradient_ops.h"

namespace sluice {

// Keeps what leaves the model, without its graph.
class OutputWatch final : public ExecutorObserver {
 public:
  explicit OutputWatch(const Flow& flow) : flow_(flow) {}

  void keep(bool on) { is_on_ = on; }
  std::vector<Values> take();  // in the order of the microbatches

  void begin_step(std::int64_t /*step*/) override { of_microbatch_.clear(); }
  void produced(const Action& action, const Values& outputs,
                std::vector<at::Tensor>& handed_on) override;

 private:
  const Flow& flow_;
  bool is_on_ = false;
  std::map<int, Values> of_microbatch_;
};

class StepRunner {
 public:
  // Proves the program. References must outlive it.
  StepRunner(Program program, RankStages& stages, const std::vector<SharedParameter>& parameters,
             Transport& transport, const LossFunction& loss, const RunOptions& options,
             const std::vector<ExecutorObserver*>& observers);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  StepResult run(const StepBatch& batch, const StepOptions& options);
  // Of the last run, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& losses() const { return ops_.losses(); }
  // After a run: gradients of ties within this rank are sums, too.
  void finish_ties() { ops_.finish_ties(); }

 private:
  const Program program_;
  OutputWatch outputs_;
  GradientOps ops_;
  Executor executor_;
};

}  // namespace sluice
