// The groups of one rank. Groups that would have only this rank are empty, except `pipeline` and
// `copy`.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"

namespace sluice {

struct RunGroups {
  Group world;
  Group pipeline;  // same replica and slices, by place
  Group replicas;  // same stages and slices, by replica
  Group shares;    // same stages and replica, by share of the slices
  Group copy;      // same replica, all places and shares, by rank
  int num_replicas = 1;
  int replica = 0;
  int num_shares = 1;
  int share = 0;

  int place() const { return pipeline.rank(); }
  // Values that all shares hold alike count only on the first share.
  bool is_first_share() const { return share == 0; }
};

// Collective over `world`; nothing is sent if all ranks form one pipeline. All ranks split in the
// same order. Throws Error(kUsage) if the mesh has another number of ranks, and Error(kInternal)
// for other axes than pp, dp_replicate, dp_shard and tp.
RunGroups make_run_groups(const Group& world, const Mesh& mesh);

}  // namespace sluice
