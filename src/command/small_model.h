// A small model to time a machine's layers: one layer of each kind, each in its own stage. Its
// schedule (F: forward, B: whole backward, I: input gradient, W: weight gradient):
//
//     0F0 1F0 2F0 2B0 1B0 0B0
//     0F1 1F1 2F1 2I1 1I1 0I1 2W1 1W1 0W1
//     REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "plan/predict/layer_times.h"
#include "sluice/causal_lm.h"
#include "sluice/plan.h"

namespace sluice {

struct SmallModel {
  std::vector<int> groups;  // index in layer_groups(), per stage
  ModelSpec spec;
  Model model;
  Plan plan;
};

// Returns `config` with one rank, and without settings that do not affect layer times.
RunConfig single_rank_config(RunConfig config);

// `config` comes from single_rank_config(), and `groups` from layer_groups(whole).
SmallModel small_model(const RunConfig& config, const ModelSpec& whole,
                       const std::vector<detail::LayerGroup>& groups);

StepBatch random_batch(const RunConfig& config, const SmallModel& small, std::int64_t step);

}  // namespace sluice
