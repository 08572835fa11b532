#include "engine/row_facts.h"

#include <string>

#include "base/text.h"
#include "engine/replicas.h"
#include "plan/action_kinds.h"
#include "plan/shard_tree.h"
#include "sluice/error.h"

namespace sluice {

StageShards shards_of_stage(const Program& program, int rank, int stage, int num_shards) {
  const int replicas = num_replicas(program.mesh);
  if (num_shards == 0) num_shards = replicas;
  const int microbatches = program.num_microbatches * replicas;
  if (num_shards < 1 || num_shards % replicas != 0) {
    throw Error(ErrorKind::kUsage, {.what = counted(num_shards, "shard") +
                                            " of gradients cannot be spread evenly over " +
                                            counted(replicas, "replica"),
                                    .where = "DataParallel::shards",
                                    .remedy = "give a multiple of the replicas"});
  }
  StageShards shards;
  if (program.forward_only || num_shards == replicas) return shards;
  if (microbatches % num_shards != 0) {
    throw Error(ErrorKind::kUsage, {.what = counted(microbatches, "microbatch") +
                                            " of all replicas cannot be divided evenly into " +
                                            counted(num_shards, "shard") + " of gradients",
                                    .where = "DataParallel::shards",
                                    .remedy = "give a divisor of the microbatches"});
  }
  const int replica = replica_of(program.mesh, rank);
  const detail::ShardRange own = detail::shards_of_replica(replica, replicas, num_shards);
  shards.own = {own.begin, own.end, num_shards};
  shards.microbatches_per_shard = microbatches / num_shards;
  shards.backwards.assign(static_cast<std::size_t>(own.size()), 0);
  const int first = replica * program.num_microbatches;
  for (const Action& action : program.ranks[place_of(program.mesh, rank)]) {
    detail::for_each_half(action, [&](const Action& half) {
      if (half.stage != stage || !detail::makes_weight_gradient(half.kind)) return;
      const int shard = (first + half.microbatch) / (microbatches / num_shards);
      ++shards.backwards.at(static_cast<std::size_t>(shard - own.begin));
    });
  }
  return shards;
}

bool must_hold_early_weights(const std::vector<Action>& row, int stage) {
  std::vector<int> inputs, weights;
  auto note = [&](const Action& action) {
    if (action.stage != stage) return;
    if (action.kind != ActionKind::kForward && action.kind != ActionKind::kBackwardWeight) {
      inputs.push_back(action.microbatch);
    }
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) {
      weights.push_back(action.microbatch);
    }
  };
  for (const Action& action : row) {
    const bool reduces_one = action.kind == ActionKind::kReduceGrad && action.microbatch >= 0;
    if (reduces_one && action.stage == stage) return true;
    if (action.kind == ActionKind::kOverlap) {
      note(action.overlap_backward());
    } else if (is_compute(action.kind)) {
      note(action);
    }
  }
  return inputs != weights;
}

}  // namespace sluice
