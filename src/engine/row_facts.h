// Facts that the row of a rank tells of one of its stages: the shards into which its gradients
// fall, and in which order its weight gradients are finished. Thread-safety: pure functions.
#pragma once

#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice {

// rank: of the mesh. num_shards: of all replicas; 0: one a replica. Throws Error(kUsage) where the
// replicas do not divide the shards, or the shards the microbatches of all replicas.
StageShards shards_of_stage(const Program& program, int rank, int stage, int num_shards);

// True if weight gradients that an I of `stage` has computed have to wait for its W: the row of the
// rank finishes the weight gradients (B, W) in another order of microbatches than the input
// gradients (B, I), or reduces those of one microbatch by themselves.
bool must_hold_early_weights(const std::vector<Action>& row, int stage);

}  // namespace sluice
