// A pipeline with our update: what `sluice train` runs.
//
// Owns: the optimizer and its state, the norms of a step. Does not own: the pipeline, data,
// checkpoints, metrics.
//
//   auto plan = sluice::plan_pipeline(..., {.num_ranks = 4, .step_end = sluice::StepEnd::kUpdate});
//   sluice::Pipeline pipeline(model, plan, transport, options);
//   sluice::Trainer trainer(pipeline, {.max_norm = 1.0});
//   auto step = trainer.step({{"x", x}, {"y", y}}, 1e-3);
//
// The norm, the check that the step is finite and the update are instructions of the plan's
// program: they overlap with compute, know zero1 and zero3, and what Pipeline::save() writes holds
// the optimizer's state.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sluice/options.h"
#include "sluice/pipeline.h"

namespace sluice {

class Optimizer;

class Trainer {
 public:
  // Collective. The pipeline must outlive the trainer, and gets one, before its first training
  // step. Throws Error(kUsage) for a plan without StepEnd::kUpdate, for a second trainer, and, on
  // every rank, for options that differ between ranks.
  Trainer(Pipeline& pipeline, const OptimizerOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Collective. One step at this learning rate, of the whole batch, cut into the plan's
  // microbatches as by Pipeline::train_step(), which says what is refused. Throws
  // Error(kNotFinite) on every rank after a loss or gradient that is not finite: nothing was
  // updated.
  StepResult step(const Inputs& inputs, double learning_rate, const StepOptions& options = {});
  // The same of microbatches that are cut already, of this rank's replica, which say where they
  // stand among the others (StepBatch::first_microbatch, total_count). Whether ranks agree is not
  // checked.
  StepResult step(const StepBatch& batch, double learning_rate);

  const Optimizer& optimizer() const;
  // The last step whose update the weights of this rank hold: that of the checkpoint that was
  // loaded, or 0, before the first; nothing when an update was begun and failed. Where all ranks
  // say the same after a failure, the weights are those of that step.
  std::optional<std::int64_t> weights_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
