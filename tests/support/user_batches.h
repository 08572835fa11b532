#pragma once

#include <string>
#include <vector>

#include "sluice/layer.h"
#include "support/pipeline_harness.h"
#include "support/user_models.h"

namespace sluice::test {

inline Model user_model(UserModel kind, int blocks, std::int64_t width = 16,
                        double dropout = 0.25) {
  return {
      make_user_layers(kind, blocks, width, dropout), {"x", "y"}, {"prediction"}, &squared_error};
}

// `rows` are row counts of microbatches, used cyclically. Steps start at 1.
inline std::vector<StepBatch> user_batches(int num_steps, int num_microbatches,
                                           const std::vector<std::int64_t>& rows,
                                           std::int64_t width = 16) {
  std::vector<StepBatch> steps;
  std::size_t next = 0;
  for (int k = 1; k <= num_steps; ++k) {
    StepBatch step;
    step.step = k;
    for (int m = 0; m < num_microbatches; ++m) {
      const std::int64_t n = rows[next++ % rows.size()];
      Values batch;
      for (const char* name : {"x", "y"}) {
        at::Tensor tensor = at::empty({n, width});
        keyed_normal_(tensor, 1, name + std::to_string(k) + "." + std::to_string(m), 0, 1);
        batch.set(name, tensor);
      }
      step.microbatches.push_back(std::move(batch));
      step.counts.push_back(n * width);
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace sluice::test
