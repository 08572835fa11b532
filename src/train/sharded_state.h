// Gathers tensors of which every replica has its own blocks, as a checkpoint stores them, and lists
// these blocks for loading.
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
  std::vector<std::int64_t> shape;  // shape once all replicas' blocks are gathered
  std::int64_t elements = 0;        // elements of the whole parameter, to spread tensors by size
  at::TensorOptions options;
  std::vector<std::optional<ElementRange>> of_replica;  // elements that each replica has
  at::Tensor own;                                       // elements of this replica; undefined: none
};

// Collective over the replicas, which must list the same tensors. Returns each tensor whole, in new
// memory, on one replica. The tensors are spread over the replicas by size.
NamedTensors gather_whole(const std::vector<ShardedTensor>& tensors, const RunGroups& groups);

// Optimizer state of which each replica has its own blocks.
struct ShardedState {
  OptimizerKind kind;
  const Optimizer& optimizer;
  const std::vector<SharedParameter>& parameters;
  const BlockOwners& owners;
};

// Lists the state of the parameters whose first use is on this rank.
std::vector<ShardedTensor> list_state(const ShardedState& state, const RunGroups& groups);
// Lists all state of this rank, for load_optimizer(). replica: this rank has the blocks of that
// replica. None: it has whole parameters.
std::vector<StatePart> parts_of(const ShardedState& state, std::optional<int> replica);

// Gathers the state of a caller's optimizers, {"KIND/NAME", tensor}, from the replicas' blocks. A
// state that is a single number must be the same on all replicas. Returns whole tensors as
// gather_whole() does, for the parameters whose first use is on this rank. Collective over the
// replicas. Throws Error(kUsage) if a replica lacks state that others have for their blocks.
NamedTensors gather_callers_state(const NamedTensors& own, const RankModel& rank);

}  // namespace sluice
