// The communication groups of one rank. A group of only this rank is empty, except `pipeline` and
// `copy`.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"

namespace sluice {

struct RunGroups {
  Group world;
  Group pipeline;  // one pipeline's ranks in order
  Group replicas;  // same stages and slices
  Group shares;    // tensor-parallel ranks of one stage
  Group copy;      // all ranks of one replica
  int num_replicas = 1;
  int replica = 0;
  int num_shares = 1;
  int share = 0;

  int place() const { return pipeline.rank(); }
  // Values that are equal on all tensor-parallel ranks are counted only on the first.
  bool is_first_share() const { return share == 0; }
};

// Collective over `world`, but sends nothing if all ranks form one pipeline. Throws Error(kUsage)
// if the mesh has another number of ranks than `world`, and Error(kInternal) for axes other than
// pp, dp_replicate, dp_shard and tp.
RunGroups make_run_groups(const Group& world, const Mesh& mesh);

}  // namespace sluice
