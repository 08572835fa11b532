// Parameters of which every replica keeps its own blocks: whole from UNSHARD to RESHARD of their
// stage (zero3).
//
// Owns: the own blocks, of all parameters of a rank's stages but those whose memory is not their
// own alone (a tie within the rank, a view) or not contiguous, which stay whole.
//
// Invariants:
//  1. The tensors of the modules stay the same ones, without memory while they are not whole. What
//     graphs have saved of them is valid whenever they are whole: version counters do not move.
//  2. The own blocks are what is trained, saved and loaded.
// Thread-safety: one rank's thread.
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
  // All that is sharded loses its memory: it holds nothing yet. owners: of what is trained.
  ShardedParameters(const std::vector<Stage*>& stages, const BlockOwners& owners,
                    const RunGroups& groups);

  // Collective over the replicas. Starts to gather those of a stage.
  Work<void> unshard(int stage);
  // Drops them.
  void reshard(int stage);

  // begin_filling() gives the parameters of a stage memory that is marked as unfilled
  // (layer/unfilled.h). end_filling() copies its numbers to the own blocks and drops it. Not within
  // a step.
  void begin_filling(int stage);
  void end_filling(int stage);

  bool is_sharded(int stage, std::size_t parameter) const;
  // The own blocks, flat; of no elements where another replica has all. Precondition of these:
  // is_sharded().
  const at::Tensor& own(int stage, std::size_t parameter) const;
  std::optional<ElementRange> range(int stage, std::size_t parameter, int replica) const;

 private:
  struct Parameter {
    at::Tensor whole;  // the same memory, with a version counter of its own
    at::Tensor own;
    std::vector<std::optional<ElementRange>> of_replica;
  };
  using Parameters = std::map<std::size_t, Parameter>;
  const Parameter& at(int stage, std::size_t parameter) const {
    return stages_.at(stage).at(parameter);
  }

  const RunGroups groups_;
  std::map<int, Parameters> stages_;  // by index within the stage
};

}  // namespace sluice
