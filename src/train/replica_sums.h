// REDUCE_GRAD: the gradients of a stage added up over the replicas of the pipeline.
//
// Exact: every replica has the sums of its largest subtrees of shards (shard_tree.h). Each block
// of the stage has an owner among the replicas (block_ranges.h), which gets those sums from all
// others and adds them in the order of the tree; what it has added goes back to all. So a replica
// sends what a ring sends: 2 (n - 1) / n of the gradients, where it has one subtree.
//
//   replica 0: blocks of a | b      all to all: 0 gets both a's, 1 both b's
//   replica 1: blocks of a | b      all gather: both get a0 + a1 and b0 + b1
//
// Fast: every replica's own sum, added in the order of the replicas by the group's all_reduce.
//
// Owns: sums in flight. Does not own: partial sums (Stage), sums of ties (tied_sums.h).
// Thread-safety: one rank's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/executor.h"
#include "engine/run_groups.h"
#include "optim/block_owners.h"
#include "sluice/options.h"

namespace sluice {

class ReplicaSums {
 public:
  // needs_whole: of a parameter of a stage; else a replica may get only the blocks that it owns.
  // Empty: all do. program and stages must outlive it and its works.
  ReplicaSums(const Program& program, const std::vector<Stage*>& stages, const BlockOwners& owners,
              RunGroups groups, const DataParallel& how,
              std::function<bool(int stage, std::size_t parameter)> needs_whole = {});
  ~ReplicaSums();

  // Starts; nothing is waited for. When the work is done the stage's gradients are those of all
  // replicas; of single microbatches, when the last of them is done.
  Work<void> reduce(int stage, std::optional<int> microbatch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
