// Shards parameters with zero3. Every replica keeps only the blocks that it owns, except between a
// stage's UNSHARD and RESHARD. A parameter stays whole if it shares memory (a tie within the rank,
// a view) or is not contiguous.
//
// Modules keep their tensor objects, without memory while sharded. Version counters do not change,
// so tensors saved in autograd graphs are valid again after UNSHARD.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "engine/run_groups.h"
#include "optim/block_owners.h"
#include "sluice/parts/stage.h"

namespace sluice {

class ShardedParameters {
 public:
  // Frees the memory of all sharded parameters. Their owned blocks are uninitialized.
  ShardedParameters(const std::vector<Stage*>& stages, const BlockOwners& owners,
                    const RunGroups& groups);

  // Starts gathering a stage's parameters. Collective over the replicas.
  Work<void> unshard(int stage);
  void reshard(int stage);

  // begin_filling() gives a stage's parameters memory, marked as unfilled (layer/unfilled.h).
  // end_filling() copies it to the owned blocks and frees it. Do not call these within a step.
  void begin_filling(int stage);
  void end_filling(int stage);

  bool is_sharded(int stage, std::size_t parameter) const;
  // Returns the parameter's blocks that this replica owns as a flat tensor, which may be empty.
  // own() and range() require is_sharded().
  const at::Tensor& own(int stage, std::size_t parameter) const;
  std::optional<ElementRange> range(int stage, std::size_t parameter, int replica) const;

 private:
  struct Parameter {
    at::Tensor whole;  // the module's tensor, with another version counter
    at::Tensor own;
    std::vector<std::optional<ElementRange>> of_replica;
    bool of_expert = false;
  };
  using Parameters = std::map<std::size_t, Parameter>;
  const Parameter& at(int stage, std::size_t parameter) const {
    return stages_.at(stage).at(parameter);
  }

  const RunGroups groups_;
  std::map<int, Parameters> stages_;
};

}  // namespace sluice
