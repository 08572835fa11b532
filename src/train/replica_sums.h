// Carries out REDUCE_GRAD: sums the gradients of a stage over the replicas of the pipeline.
//
// In exact mode, each replica holds the sums of its largest subtrees of shards (shard_tree.h). Each
// block of the stage is owned by one replica (block_ranges.h). The owner receives the sums of all
// other replicas, adds them in the order of the tree, and sends the result to all. A replica with
// one subtree sends as much as in a ring all-reduce: 2 (n - 1) / n of the gradients.
//
//   replica 0: blocks of a | b      all to all: 0 gets both a's, 1 both b's
//   replica 1: blocks of a | b      all gather: both get a0 + a1 and b0 + b1
//
// In fast mode, the group's all_reduce adds the sums of the replicas in replica order.
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
  // needs_whole: whether every replica needs all of a parameter's gradient. Otherwise a replica may
  // get only the blocks that it owns. Empty: always true. program and stages must outlive this
  // object and its works.
  ReplicaSums(const Program& program, const std::vector<Stage*>& stages, const BlockOwners& owners,
              RunGroups groups, const DataParallel& how,
              std::function<bool(int stage, std::size_t parameter)> needs_whole = {});
  ~ReplicaSums();

  // Starts a reduction without blocking. When the work is done, the stage's gradients are sums over
  // all replicas. With single microbatches, this holds after the last microbatch's work.
  Work<void> reduce(int stage, std::optional<int> microbatch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
