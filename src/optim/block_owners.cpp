#include "optim/block_owners.h"

namespace sluice {

BlockOwners::BlockOwners(const std::vector<Stage*>& stages, int num_replicas) {
  for (Stage* stage : stages) {
    std::vector<at::Tensor> parameters;
    std::vector<std::size_t> trainable;
    for (const ParameterInfo& info : stage->parameters()) {
      if (info.trainable) trainable.push_back(parameters.size());
      parameters.push_back(info.tensor);
    }
    stages_[stage->index()] = divide_blocks(parameters, trainable, num_replicas);
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
