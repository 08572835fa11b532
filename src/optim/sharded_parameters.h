// Parameters of which every replica keeps only its own blocks, except from UNSHARD to RESHARD of
// their stage (zero3). A parameter stays whole if it shares memory (a tie within the rank, a view)
// or is not contiguous.
//
// Modules keep their tensor objects, without memory while sharded. Version counters do not change,
// so graphs' saved tensors are valid again with whole parameters.
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
  // Frees the memory of all sharded parameters. The own blocks are uninitialized.
  ShardedParameters(const std::vector<Stage*>& stages, const BlockOwners& owners,
                    const RunGroups& groups);

  // Starts gathering the parameters of a stage. Collective over the replicas.
  Work<void> unshard(int stage);
  // Frees a stage's parameters again.
  void reshard(int stage);

  // begin_filling() gives the stage's parameters memory marked as unfilled (layer/unfilled.h).
  // end_filling() copies it to the own blocks and frees it. Not allowed within a step.
  void begin_filling(int stage);
  void end_filling(int stage);

  bool is_sharded(int stage, std::size_t parameter) const;
  // Returns the own blocks as a flat tensor, empty if there are none. own() and range() require
  // is_sharded().
  const at::Tensor& own(int stage, std::size_t parameter) const;
  std::optional<ElementRange> range(int stage, std::size_t parameter, int replica) const;

 private:
  struct Parameter {
    at::Tensor whole;  // same memory, own version counter
    at::Tensor own;
    std::vector<std::optional<ElementRange>> of_replica;
  };
  using Parameters = std::map<std::size_t, Parameter>;
  const Parameter& at(int stage, std::size_t parameter) const {
    return stages_.at(stage).at(parameter);
  }

  const RunGroups groups_;
  std::map<int, Parameters> stages_;  // by stage, then index in the stage
};

}  // namespace sluice
