// training.layout_free: one key that gives every layout the same bits.
//
// The bits of a run belong to the number of gradient shards and of tensor slices, not to the ranks.
// layout_free = N fixes both numbers, so that every layout whose degrees divide N computes the
// same. Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "sluice/model_spec.h"
#include "sluice/plan.h"

namespace sluice::detail {

// Fixes data_parallel_shards at the largest divisor of layout_free that divides the microbatches of
// a step. Every degree that divides both layout_free and the microbatches then divides the shards.
// Without layout_free the configuration stays as it is. Throws Error(kUsage) for a degree that does
// not divide layout_free, and for keys that contradict it.
void fix_shards(RunConfig& config);

// The most slices, of the divisors of layout_free, into which the layers of the model can be
// divided: 0 for a model whose layers are not divided at all, or if layout_free is 0.
int most_slices(const RunConfig& config, const ModelSpec& model);

// The configuration of a model that layout_free divides into this many slices.
RunConfig with_slices(RunConfig config, int slices);

// One line for the log of a run: the degrees that leave its bits as they are, and the axes whose
// degree changes them.
std::string bits_of_layouts(const RunConfig& config, const Plan& plan);

}  // namespace sluice::detail
