#include "optim/block_owners.h"

#include <algorithm>

#include "optim/slice_blocks.h"

namespace sluice {

std::vector<std::int64_t> blocks_of(const ParameterInfo& parameter) {
  const bool by_slice = parameter.split && parameter.tensor.is_contiguous();
  return by_slice ? block_ends(parameter) : block_ends(parameter.tensor);
}

BlockOwners::BlockOwners(const std::vector<Stage*>& stages, int num_replicas)
    : BlockOwners(stages, [&] {
        RunGroups groups;
        groups.num_replicas = groups.expert_holders.count = num_replicas;
        return groups;
      }()) {}

BlockOwners::BlockOwners(const std::vector<Stage*>& stages, const RunGroups& groups) {
  for (Stage* stage : stages) {
    std::vector<std::vector<std::int64_t>> ends;
    std::vector<std::size_t> trainable, of_experts;
    for (const ParameterInfo& info : stage->parameters()) {
      if (info.trainable) (info.of_expert ? of_experts : trainable).push_back(ends.size());
      ends.push_back(blocks_of(info));
    }
    auto& of_replicas = stages_[stage->index()] =
        divide_blocks(ends, trainable, groups.num_replicas);
    if (of_experts.empty()) continue;
    const auto of_holders = divide_blocks(ends, of_experts, groups.expert_holders.count);
    for (std::size_t holder = 0; holder < of_holders.size(); ++holder) {
      auto& ranges = of_replicas[static_cast<std::size_t>(
          groups.replica_of_holder(/*is_expert=*/true, static_cast<int>(holder)))];
      ranges.insert(ranges.end(), of_holders[holder].begin(), of_holders[holder].end());
      std::sort(ranges.begin(), ranges.end(), [](const ElementRange& x, const ElementRange& y) {
        return x.parameter < y.parameter;
      });
    }
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
