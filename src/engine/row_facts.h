#pragma once

#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice {

// rank: in the mesh. num_shards: over all replicas, or 0 for one per replica. Throws Error(kUsage)
// unless replicas divide the shards and shards divide all replicas' microbatches.
StageShards shards_of_stage(const Program& program, int rank, int stage, int num_shards);

// Whether weight gradients that an I of `stage` computes early must wait for their W. They must if
// the row finishes weight gradients (B, W) in another microbatch order than input gradients (B, I),
// or reduces single microbatches.
bool must_hold_early_weights(const std::vector<Action>& row, int stage);

}  // namespace sluice
