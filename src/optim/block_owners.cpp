#include "optim/block_owners.h"

#include "optim/slice_blocks.h"

namespace sluice {

std::vector<std::int64_t> blocks_of(const ParameterInfo& parameter) {
  const bool by_slice = parameter.split && parameter.tensor.is_contiguous();
  return by_slice ? block_ends(parameter) : block_ends(parameter.tensor);
}

BlockOwners::BlockOwners(const std::vector<Stage*>& stages, int num_replicas) {
  for (Stage* stage : stages) {
    std::vector<std::vector<std::int64_t>> ends;
    std::vector<std::size_t> trainable;
    for (const ParameterInfo& info : stage->parameters()) {
      if (info.trainable) trainable.push_back(ends.size());
      ends.push_back(blocks_of(info));
    }
    stages_[stage->index()] = divide_blocks(ends, trainable, num_replicas);
  }
}

std::optional<ElementRange> BlockOwners::range(int stage, std::size_t parameter,
                                               int replica) const {
  for (const ElementRange& range : stages_.at(stage)[static_cast<std::size_t>(replica)]) {
    if (range.parameter == parameter) return range;
  }
  return std::nullopt;
}

}  // namespace sluice
