// A small model to measure a machine: one layer of each kind, each in its own stage. Its schedule
// has:
//
//     0F0 1F0 2F0 2B0 1B0 0B0               F and B
//     0F1 1F1 2F1 2I1 1I1 0I1 2W1 1W1 0W1   F, I and W
//     REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP   the update
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "plan/predict/layer_times.h"
#include "sluice/causal_lm.h"
#include "sluice/plan.h"

namespace sluice {

struct SmallModel {
  std::vector<int> groups;  // indices of layer_groups(), by stage
  ModelSpec spec;
  Model model;
  Plan plan;
};

// Returns a configuration of one rank, without settings that do not affect layer times.
RunConfig single_rank_config(RunConfig config);

// `config` comes from single_rank_config(), `groups` from layer_groups() of `whole`.
SmallModel small_model(const RunConfig& config, const ModelSpec& whole,
                       const std::vector<detail::LayerGroup>& groups);

StepBatch random_batch(const RunConfig& config, const SmallModel& small, std::int64_t step);

}  // namespace sluice
