// Tensors of which every replica has its own blocks, as a checkpoint holds them, and back.
// Thread-safety: one rank's thread.
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
  std::vector<std::int64_t> shape;  // shape of all that the replicas have of it together
  std::int64_t elements = 0;        // elements of the whole parameter, by which tensors are spread
  at::TensorOptions options;
  std::vector<std::optional<ElementRange>> of_replica;  // what each has
  at::Tensor own;                                       // this one's; undefined: nothing
};

// Collective over the replicas, which list the same tensors. Each whole on one replica, spread by
// size; in new memory.
NamedTensors gather_whole(const std::vector<ShardedTensor>& tensors, const RunGroups& groups);

// The optimizer's state where each replica has that of the blocks that it owns.
struct ShardedState {
  OptimizerKind kind;
  const Optimizer& optimizer;
  const std::vector<SharedParameter>& parameters;
  const BlockOwners& owners;
};

// State of the parameters of which this rank has the first use.
std::vector<ShardedTensor> list_state(const ShardedState& state, const RunGroups& groups);
// All parts that this rank has, for load_optimizer. replica: of which it has the blocks; none: it
// has all of its parameters.
std::vector<StatePart> parts_of(const ShardedState& state, std::optional<int> replica);

// State of a caller's optimizer, {"KIND/NAME", tensor}, where each replica has that of its own
// blocks; one number, where it is no tensor of elements, all alike. As gather_whole() gives it, of
// the parameters of which this rank has the first use. Collective over the replicas. Throws
// Error(kUsage) where a replica has none of what others have of their blocks.
NamedTensors gather_callers_state(const NamedTensors& own, const RankModel& rank);

}  // namespace sluice
