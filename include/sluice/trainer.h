// Trains a pipeline with sluice's own optimizer, as `sluice train` does.
//
//     auto plan = sluice::plan_pipeline(
//         ..., {.num_ranks = 4, .step_end = sluice::StepEnd::kUpdate});
//     sluice::Pipeline pipeline(model, plan, transport, options);
//     sluice::Trainer trainer(pipeline, {.max_norm = 1.0});
//     auto step = trainer.step({{"x", x}, {"y", y}}, 1e-3);
//
// Norm, finite check and update are program instructions, so they overlap with compute and support
// zero1 and zero3. Pipeline::save() also saves the optimizer state.
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
  // Collective, before the pipeline's first step. The pipeline must outlive the trainer. Throws
  // Error(kUsage) without StepEnd::kUpdate, for a second trainer, or for options that differ
  // between ranks.
  Trainer(Pipeline& pipeline, const OptimizerOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Collective. Throws Error(kNotFinite) on every rank, before any update, if the loss or a
  // gradient is not finite. Checks inputs like Pipeline::train_step().
  StepResult step(const Inputs& inputs, double learning_rate, const StepOptions& options = {});
  // Runs a step on microbatches that are already cut. Does not check that ranks agree on the batch.
  StepResult step(const StepBatch& batch, double learning_rate);

  const Optimizer& optimizer() const;
  // The last step that updated this rank's weights, initially the loaded step. None if an update
  // failed halfway. The weights are consistent if all ranks return the same step.
  std::optional<std::int64_t> weights_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
