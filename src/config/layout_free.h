// Implements training.layout_free. A run's bits depend on its numbers of gradient shards and tensor
// slices, not on its ranks. layout_free = N fixes both numbers, so every layout whose degrees
// divide N computes the same bits.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "sluice/model_spec.h"
#include "sluice/plan.h"

namespace sluice::detail {

// Sets data_parallel_shards to the largest divisor of layout_free that divides the number of
// microbatches. Throws Error(kUsage) for a degree that does not divide layout_free and for keys
// that contradict it.
void fix_shards(RunConfig& config);

// Returns the largest divisor of layout_free into which all layers can be sliced, or 0 if there is
// none.
int most_slices(const RunConfig& config, const ModelSpec& model);

RunConfig with_slices(RunConfig config, int slices);

std::string layout_invariance_text(const RunConfig& config, const Plan& plan);

}  // namespace sluice::detail
