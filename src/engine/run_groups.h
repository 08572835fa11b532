// The communication groups of one rank. A group of only this rank is empty, except `pipeline` and
// `copy`.
#pragma once

#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"

namespace sluice {

// The ranks that hold the same part of a stage: they add up its gradients and shard its state.
struct Holders {
  Group group;    // empty for one rank
  int count = 1;  // size of the group
  int index = 0;  // this rank's
};

struct RunGroups {
  Group world;
  Group pipeline;  // one pipeline's ranks in order
  Group replicas;  // same stages and slices
  Group shares;    // tensor-parallel ranks of one stage
  // The ranks that hold one copy of the model: those of one replica, or of the replicas that share
  // experts.
  Group copy;
  Group experts;  // ranks that share the experts of a stage
  int num_replicas = 1;
  int replica = 0;
  int num_shares = 1;
  int share = 0;
  int num_experts_ranks = 1;  // size of `experts`
  int expert_coordinate = 0;  // this rank's index in `experts`
  Holders expert_holders;     // ranks that hold the same experts

  // The ranks that hold the same parameters other than experts.
  Holders holders() const { return {replicas, num_replicas, replica}; }
  Holders holders_of(bool is_expert) const { return is_expert ? expert_holders : holders(); }
  int replica_of_holder(bool is_expert, int holder) const {
    return is_expert ? holder * num_experts_ranks + expert_coordinate : holder;
  }
  int place() const { return pipeline.rank(); }
  // Values that are equal on all tensor-parallel ranks are counted only on the first.
  bool is_first_share() const { return share == 0; }
};

// Collective over `world`, but sends nothing if all ranks form one pipeline. Throws Error(kUsage)
// if the mesh has another number of ranks than `world`, and Error(kInternal) for axes other than
// pp, dp_replicate, dp_shard and tp, or for ep together with tp.
RunGroups make_run_groups(const Group& world, const Mesh& mesh);

}  // namespace sluice
