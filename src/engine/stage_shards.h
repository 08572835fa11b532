// The shards into which the gradients of a stage fall, by what its row will run.
// Thread-safety: pure functions.
#pragma once

#include "sluice/parts/stage.h"
#include "sluice/program.h"

namespace sluice {

// rank: of the mesh. num_shards: of all replicas; 0: one a replica. Throws Error(kUsage) where the
// replicas do not divide the shards, or the shards the microbatches of all replicas.
StageShards shards_of_stage(const Program& program, int rank, int stage, int num_shards);

}  // namespace sluice
