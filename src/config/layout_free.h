// Implements training.layout_free, which makes many layouts compute the same bits.
//
// The bits of a run depend on the numbers of gradient shards and tensor slices, not on the ranks.
// layout_free = N fixes both numbers, so every layout whose degrees divide N has the same bits.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "sluice/model_spec.h"
#include "sluice/plan.h"

namespace sluice::detail {

// Sets data_parallel_shards to the largest divisor of layout_free that divides the number of
// microbatches of a step. Does nothing if layout_free is 0. Throws Error(kUsage) for a degree that
// does not divide layout_free and for keys that contradict it.
void fix_shards(RunConfig& config);

// The largest divisor of layout_free into which the model's layers can be sliced. 0 if layout_free
// is 0 or the layers cannot be divided.
int most_slices(const RunConfig& config, const ModelSpec& model);

// Returns the configuration with this number of tensor slices.
RunConfig with_slices(RunConfig config, int slices);

// One log line with the degrees that keep the bits of the run and the axes that change them.
std::string bits_of_layouts(const RunConfig& config, const Plan& plan);

}  // namespace sluice::detail
