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
  std::vector<std::int64_t> shape;  // shape of all replicas' blocks together
  std::int64_t elements = 0;        // elements of the whole parameter, for balancing
  at::TensorOptions options;
  std::vector<std::optional<ElementRange>> of_replica;  // elements that each replica has
  at::Tensor own;                                       // undefined: none
};

// Returns each tensor whole on one replica, in new memory, spread by size. Collective over the
// replicas, which must list the same tensors.
NamedTensors gather_whole(const std::vector<ShardedTensor>& tensors, const RunGroups& groups);

struct ShardedState {
  OptimizerKind kind;
  const Optimizer& optimizer;
  const std::vector<SharedParameter>& parameters;
  const BlockOwners& owners;
};

// Lists the optimizer state of each parameter whose first use is on this rank.
std::vector<ShardedTensor> list_state(const ShardedState& state, const RunGroups& groups);
// Lists the state for load_optimizer(). replica: list only this replica's blocks.
std::vector<StatePart> parts_of(const ShardedState& state, std::optional<int> replica);

// Gathers the state {"KIND/NAME", tensor} of a caller's optimizers like gather_whole(), for
// parameters first used on this rank. Single numbers must be equal on all replicas. Collective over
// the replicas. Throws Error(kUsage) if a replica lacks state.
NamedTensors gather_callers_state(const NamedTensors& own, const RankModel& rank);

}  // namespace sluice
