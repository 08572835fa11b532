#pragma once

#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice {

// Returns the gradient shards of a stage's microbatches. rank: in the mesh. num_shards: over all
// replicas, or 0 for one per replica. Throws Error(kUsage) unless replicas divide the shards and
// shards divide all replicas' microbatches.
StageShards shards_of_stage(const Program& program, int rank, int stage, int num_shards);

// Whether weight gradients that an input-gradient instruction (I) computes early must wait for
// their W. They must if B and W come in another microbatch order than B and I, or if single
// microbatches are reduced.
bool must_hold_early_weights(const std::vector<Action>& row, int stage);

}  // namespace sluice
