// The groups of a run that has several replicas of its pipeline, or several ranks for
// each of its places, from the side of one rank.
//
// Owns: who is in which group. Does not own: what they do together.
// Thread-safety: values, of one rank's thread.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"

namespace sluice {

struct RunGroups {
  Group world;     // all ranks
  Group pipeline;  // those of this rank's replica and share of slices, by their places
  Group
      replicas;  // those with the same stages and slices, by replica; of nobody where there is one
  Group shares;  // those that share the slices of its stages, by share; of nobody where it is one
  Group copy;    // those of this rank's replica, of all places and shares; by their ranks
  int num_replicas = 1;
  int replica = 0;
  int num_shares = 1;
  int share = 0;

  int place() const { return pipeline.rank(); }  // in the pipeline
  // Values that all shares hold alike count on the first share.
  bool is_first_share() const { return share == 0; }
};

// Collective over the world; nothing is said where all are one pipeline. The splits are in one
// order on all ranks. Throws Error(kUsage) for a mesh of another number of ranks, Error(kInternal)
// for one with axes beside pp, dp_replicate, dp_shard and tp.
RunGroups make_run_groups(const Group& world, const Mesh& mesh);

}  // namespace sluice
