// The small model that is trained to measure a machine: one layer of each kind, each a stage of its
// own, with a schedule that has every compute instruction.
//
//   0F0 1F0 2F0 2B0 1B0 0B0               F and B
//   0F1 1F1 2F1 2I1 1I1 0I1 2W1 1W1 0W1   F, I and W
//   REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP   the update
//
// Does not own: running it, its times (measure_machine.cpp).
// Thread-safety: values, pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "plan/predict/layer_times.h"
#include "sluice/causal_lm.h"
#include "sluice/plan.h"

namespace sluice {

struct SmallModel {
  std::vector<int> groups;  // the groups of layer_groups() that are measured, a stage each
  ModelSpec spec;
  Model model;
  Plan plan;
};

// The configuration for one rank, with even stages and nothing that the layers' times do not depend
// on.
RunConfig of_one_rank(RunConfig config);

// config: of one rank. groups: layer_groups() of `whole`.
SmallModel small_model(const RunConfig& config, const ModelSpec& whole,
                       const std::vector<detail::LayerGroup>& groups);

// A batch of a round, which has a microbatch for B and one for I and W.
StepBatch some_batch(const RunConfig& config, const SmallModel& small, std::int64_t step);

}  // namespace sluice
