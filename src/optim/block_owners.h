// Assigns each parameter block of a rank's stages to one replica. This owner sums the block's
// gradients and, with sharded optimizer state, updates the block. The blocks of experts belong to
// replicas that hold the same experts.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "engine/run_groups.h"
#include "optim/block_ranges.h"
#include "sluice/parts/stage.h"

namespace sluice {

std::vector<std::int64_t> blocks_of(const ParameterInfo& parameter);

class BlockOwners {
 public:
  BlockOwners(const std::vector<Stage*>& stages, int num_replicas);
  BlockOwners(const std::vector<Stage*>& stages, const RunGroups& groups);

  // Returns [replica][range], in layer order.
  const std::vector<std::vector<ElementRange>>& of_stage(int stage) const {
    return stages_.at(stage);
  }
  std::optional<ElementRange> range(int stage, std::size_t parameter, int replica) const;

 private:
  std::map<int, std::vector<std::vector<ElementRange>>> stages_;
};

}  // namespace sluice
