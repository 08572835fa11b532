// A pipeline with sluice's own update, as `sluice train` runs it.
//
//   auto plan = sluice::plan_pipeline(..., {.num_ranks = 4, .step_end = sluice::StepEnd::kUpdate});
//   sluice::Pipeline pipeline(model, plan, transport, options);
//   sluice::Trainer trainer(pipeline, {.max_norm = 1.0});
//   auto step = trainer.step({{"x", x}, {"y", y}}, 1e-3);
//
// The norm, the check that the step is finite and the update are instructions of the plan's
// program: they overlap with compute, support zero1 and zero3, and Pipeline::save() also writes the
// optimizer's state.
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
  // Collective. The pipeline must outlive the trainer, and gets only one, before its first training
  // step. Throws Error(kUsage) for a plan without StepEnd::kUpdate, for a second trainer, and, on
  // every rank, for options that differ between ranks.
  Trainer(Pipeline& pipeline, const OptimizerOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Collective. One step at this learning rate, of the whole batch, cut into the plan's
  // microbatches as by Pipeline::train_step(), which lists what is refused. Throws
  // Error(kNotFinite) on every rank after a loss or gradient that is not finite: nothing was
  // updated.
  StepResult step(const Inputs& inputs, double learning_rate, const StepOptions& options = {});
  // The same for microbatches of this rank's replica that are already cut, with their place among
  // all (StepBatch::first_microbatch, total_count). Does not check that ranks agree.
  StepResult step(const StepBatch& batch, double learning_rate);

  const Optimizer& optimizer() const;
  // The last step whose update the weights of this rank hold: before the first, that of the loaded
  // checkpoint, or 0; none when an update was started and failed. If all ranks return the same step
  // after a failure, the weights are those of that step.
  std::optional<std::int64_t> weights_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
