#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "support/even_partition.h"
#include "support/train_pipeline.h"
#include "support/user_models.h"

namespace sluice::test {

inline constexpr std::int64_t kTrainerWidth = 8;
inline constexpr int kMicrobatches = 4;

inline Model mlp(bool tied, int blocks = 6, double dropout = 0.1) {
  Model model;
  model.layers = make_user_layers(UserModel::kMlp, blocks, kTrainerWidth, dropout);
  if (tied) model.layers.back().ties = {{"weight", "first.weight"}};
  model.inputs = {"x", "y"};
  model.outputs = {"prediction"};
  model.loss = squared_error;
  return model;
}

inline std::vector<StepBatch> random_steps(int num_steps, int num_microbatches = kMicrobatches) {
  std::vector<StepBatch> steps;
  for (int step = 1; step <= num_steps; ++step) {
    StepBatch batch;
    batch.step = step;
    for (int m = 0; m < num_microbatches; ++m) {
      const at::Tensor x =
          at::sin(at::arange(2 * kTrainerWidth, at::kFloat) * (0.7f + 0.1f * m) + step)
              .reshape({2, kTrainerWidth});
      batch.microbatches.push_back({{"x", x}, {"y", at::cos(2 * x)}});
      batch.counts.push_back(2 * kTrainerWidth);
    }
    steps.push_back(std::move(batch));
  }
  return steps;
}

inline TrainingRun mlp_run(const std::string& schedule, int num_ranks, bool tied = false,
                           int num_steps = 4) {
  TrainingRun run;
  run.model = [tied] { return mlp(tied); };
  run.program = training_program(schedule, num_ranks, kMicrobatches);
  if (tied) {
    const int last = run.program.num_stages() - 1;
    if (last > 0) {
      run.program =
          training_program(schedule, num_ranks, kMicrobatches, {{"first.weight", {0, last}}});
    }
  }
  run.partition = even_partition(mlp(tied), run.program.stage_map);
  run.steps = random_steps(num_steps);
  run.options.seed = 3;
  return run;
}

// Has no dropout, because simulated devices share the CPU's generator.
inline Model plain_mlp(bool tied = false) { return mlp(tied, /*blocks=*/6, /*dropout=*/0.0); }

inline TrainingRun plain_run(const std::string& schedule, int num_ranks, bool tied = false) {
  TrainingRun run = mlp_run(schedule, num_ranks, tied);
  run.model = [tied] { return plain_mlp(tied); };
  return run;
}

}  // namespace sluice::test
