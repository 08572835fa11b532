// A small model for measuring a machine: one layer of each kind, each in its own stage. Its
// schedule has every compute instruction:
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "plan/predict/layer_times.h"
#include "sluice/causal_lm.h"
#include "sluice/plan.h"

namespace sluice {

struct SmallModel {
  std::vector<int> groups;  // indices into layer_groups(), one per stage
  ModelSpec spec;
  Model model;
  Plan plan;
};

// Reduces a configuration to one rank and even stages, and removes settings that do not affect
// layer times.
RunConfig of_one_rank(RunConfig config);

// `config` is from of_one_rank(), and `groups` from layer_groups() of `whole`.
SmallModel small_model(const RunConfig& config, const ModelSpec& whole,
                       const std::vector<detail::LayerGroup>& groups);

// Has one microbatch for B and one for I and W.
StepBatch some_batch(const RunConfig& config, const SmallModel& small, std::int64_t step);

}  // namespace sluice
