#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load_state.h"
#include "engine/run_groups.h"
#include "optim/block_owners.h"
#include "optim/optimizer.h"
#include "sluice/options.h"
#include "sluice/parts/saver.h"
#include "train/parameter_list.h"
#include "train/rank_model.h"

namespace sluice {

struct ShardedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // whole shape, with all replicas' blocks
  std::int64_t elements = 0;        // of the whole parameter, to balance replicas
  at::TensorOptions options;
  std::vector<std::optional<ElementRange>> of_replica;  // elements on each replica
  at::Tensor own;                                       // undefined if this replica has none
  bool of_expert = false;
};

// Returns each tensor whole on one replica, in new memory. Tensors are spread over replicas by
// size. Collective over the replicas, which must list the same tensors, except experts that other
// replicas hold.
NamedTensors gather_whole(const std::vector<ShardedTensor>& tensors, const RunGroups& groups);

struct ShardedState {
  OptimizerKind kind;
  const Optimizer& optimizer;
  const std::vector<SharedParameter>& parameters;
  const BlockOwners& owners;
};

// Lists the optimizer state of each parameter whose first use is on this rank.
std::vector<ShardedTensor> list_state(const ShardedState& state, const RunGroups& groups);
// Lists state for load_optimizer(). replica: list only the blocks that this replica owns.
std::vector<StatePart> parts_of(const ShardedState& state, std::optional<int> replica);

// Gathers state {"KIND/NAME", tensor} of a user's optimizers into whole tensors, for parameters
// first used on this rank. State of one number must be equal on all replicas. Collective over the
// replicas. Throws Error(kUsage) if a replica lacks state.
NamedTensors gather_callers_state(const NamedTensors& own, const RankModel& rank);

}  // namespace sluice
