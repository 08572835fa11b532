// The replica that owns each block of the trainable parameters of a rank's stages: it adds up their
// gradients, and updates them where the state of the optimizer is sharded.
// Thread-safety: values.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "optim/block_ranges.h"
#include "sluice/parts/stage.h"

namespace sluice {

// The ends of its blocks, for divide_blocks().
std::vector<std::int64_t> blocks_of(const ParameterInfo& parameter);

class BlockOwners {
 public:
  BlockOwners(const std::vector<Stage*>& stages, int num_replicas);

  // [replica][range], in layer order. Precondition of both: the stage is one of them.
  const std::vector<std::vector<ElementRange>>& of_stage(int stage) const {
    return stages_.at(stage);
  }
  // The range of a parameter that a replica owns.
  std::optional<ElementRange> range(int stage, std::size_t parameter, int replica) const;

 private:
  std::map<int, std::vector<std::vector<ElementRange>>> stages_;
};

}  // namespace sluice
