// The groups of a run that has several replicas of its pipeline, from the side of one rank.
//
// Owns: who is in which group. Does not own: what they do together.
// Thread-safety: values, of one rank's thread.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"

namespace sluice {

struct RunGroups {
  Group world;     // all ranks
  Group pipeline;  // those of this rank's replica, by their places; with one replica the world
  Group replicas;  // those with the same stages, by replica; of nobody where there is one
  int num_replicas = 1;
  int replica = 0;

  int place() const { return pipeline.rank(); }  // in the pipeline
};

// Collective over the world; nothing is said where there is one replica. Throws Error(kUsage) for a
// mesh of another number of ranks, Error(kInternal) for one with axes beside pp, dp_replicate and
// dp_shard.
RunGroups make_run_groups(const Group& world, const Mesh& mesh);

}  // namespace sluice
