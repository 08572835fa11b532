// Carries out REDUCE_GRAD, which sums a stage's gradients over the replicas.
//
// Exact mode: each replica sums its largest subtrees of shards (shard_tree.h). A block's owner
// (block_ranges.h) gets these sums from all replicas, adds them in tree order and sends the result
// to all. With one subtree a replica sends 2 (n - 1) / n of the gradients, as in a ring all-reduce.
//
//   replica 0: blocks of a | b      all to all: 0 gets both a's, 1 both b's
//   replica 1: blocks of a | b      all gather: both get a0 + a1 and b0 + b1
//
// Experts are summed over the replicas that hold them.
//
// Fast mode: the group's all_reduce adds the replicas' sums in replica order.
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
  // needs_whole: whether all replicas need a parameter's whole gradient, not only the blocks that
  // they own. If unset, they always do. program and stages must outlive the returned Works.
  ReplicaSums(const Program& program, const std::vector<Stage*>& stages, const BlockOwners& owners,
              RunGroups groups, const DataParallel& how,
              std::function<bool(int stage, std::size_t parameter)> needs_whole = {});
  ~ReplicaSums();

  // Does not block. Gradients are final when the Work is done. For single microbatches, the last
  // one's Work must be done.
  Work<void> reduce(int stage, std::optional<int> microbatch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
