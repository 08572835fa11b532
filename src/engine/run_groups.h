// The groups of one rank. Groups that would have only this rank are empty, except `pipeline` and
// `copy`.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"

namespace sluice {

struct RunGroups {
  Group world;
  Group pipeline;  // same replica and slices, ordered by place
  Group replicas;  // same stages and slices, ordered by replica
  Group shares;    // same stages and replica, ordered by share
  Group copy;      // same replica, ordered by rank
  int num_replicas = 1;
  int replica = 0;
  int num_shares = 1;
  int share = 0;

  int place() const { return pipeline.rank(); }
  // Values that are equal on all shares count only on the first.
  bool is_first_share() const { return share == 0; }
};

// Collective over `world`, but sends nothing if all ranks form one pipeline. Throws Error(kUsage)
// if the mesh has another number of ranks, and Error(kInternal) for axes other than pp,
// dp_replicate, dp_shard and tp.
RunGroups make_run_groups(const Group& world, const Mesh& mesh);

}  // namespace sluice
