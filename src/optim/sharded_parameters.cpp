#include "optim/sharded_parameters.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <utility>

#include "layer/storage_memory.h"
#include "layer/unfilled.h"
#include "optim/gather_blocks.h"

namespace sluice {
namespace {

bool has_memory_of_its_own(const at::Tensor& tensor,
                           const std::map<const void*, int>& num_of_storage) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 && tensor.numel() > 0 &&
         tensor.storage().nbytes() ==
             static_cast<std::size_t>(tensor.numel()) * tensor.element_size() &&
         num_of_storage.at(tensor.storage().unsafeGetStorageImpl()) == 1;
}

}  // namespace

ShardedParameters::ShardedParameters(const std::vector<Stage*>& stages, const BlockOwners& owners,
                                     const RunGroups& groups)
    : groups_(groups) {
  const at::NoGradGuard no_grad;
  std::map<const void*, int> num_of_storage;
  for (Stage* stage : stages) {
    for (const ParameterInfo& info : stage->parameters())
      ++num_of_storage[info.tensor.storage().unsafeGetStorageImpl()];
  }
  for (Stage* stage : stages) {
    Parameters& parameters = stages_[stage->index()];
    std::vector<std::vector<std::int64_t>> ends;
    std::vector<std::size_t> frozen, frozen_experts;
    for (const ParameterInfo& info : stage->parameters()) {
      const std::size_t index = ends.size();
      ends.push_back(blocks_of(info));
      if (!has_memory_of_its_own(info.tensor, num_of_storage)) continue;
      if (!info.trainable) (info.of_expert ? frozen_experts : frozen).push_back(index);
      Parameter& parameter = parameters[index];
      parameter.of_expert = info.of_expert;
      parameter.whole = info.tensor.variable_data();  // so it has its own version counter
      for (int replica = 0; replica < groups.num_replicas; ++replica)
        parameter.of_replica.push_back(info.trainable ? owners.range(stage->index(), index, replica)
                                                      : std::nullopt);
    }
    for (const bool are_experts : {false, true}) {
      const auto of_frozen = divide_blocks(ends, are_experts ? frozen_experts : frozen,
                                           groups.holders_of(are_experts).count);
      for (int holder = 0; holder < std::ssize(of_frozen); ++holder) {
        const auto replica =
            static_cast<std::size_t>(groups.replica_of_holder(are_experts, holder));
        for (const ElementRange& range : of_frozen[static_cast<std::size_t>(holder)])
          parameters.at(range.parameter).of_replica[replica] = range;
      }
    }
    for (auto& [index, parameter] : parameters) {
      const auto& range = parameter.of_replica[static_cast<std::size_t>(groups.replica)];
      parameter.own = unfilled({range ? range->size() : 0}, parameter.whole.options());
    }
    reshard(stage->index());
  }
}

Work<void> ShardedParameters::unshard(int stage) {
  Parameters& parameters = stages_.at(stage);
  OwnedBlocks blocks(groups_);
  for (auto& [index, parameter] : parameters) {
    for (int replica = 0; replica < groups_.num_replicas; ++replica) {
      if (const auto& range = parameter.of_replica[static_cast<std::size_t>(replica)])
        blocks.add(parameter.of_expert, replica, {parameter.whole, *range, parameter.own});
    }
  }
  return gather_blocks(groups_, blocks, [this, &parameters] {
    const at::NoGradGuard no_grad;
    for (auto& [index, parameter] : parameters) {
      take_memory(parameter.whole);
      if (const auto& range = parameter.of_replica[static_cast<std::size_t>(groups_.replica)])
        set_elements(parameter.whole, *range, parameter.own);
    }
  });
}

void ShardedParameters::reshard(int stage) {
  for (auto& [index, parameter] : stages_.at(stage)) resize_memory(parameter.whole, 0);
}

void ShardedParameters::begin_filling(int stage) {
  for (auto& [index, parameter] : stages_.at(stage)) {
    take_memory(parameter.whole);
    set_unfilled(parameter.whole);
  }
}

void ShardedParameters::end_filling(int stage) {
  const at::NoGradGuard no_grad;
  for (auto& [index, parameter] : stages_.at(stage)) {
    if (const auto& range = parameter.of_replica[static_cast<std::size_t>(groups_.replica)])
      parameter.own.copy_(elements_of(parameter.whole, *range));
  }
  reshard(stage);
}

bool ShardedParameters::is_sharded(int stage, std::size_t parameter) const {
  return stages_.at(stage).contains(parameter);
}

const at::Tensor& ShardedParameters::own(int stage, std::size_t parameter) const {
  return at(stage, parameter).own;
}

std::optional<ElementRange> ShardedParameters::range(int stage, std::size_t parameter,
                                                     int replica) const {
  return at(stage, parameter).of_replica[static_cast<std::size_t>(replica)];
}

}  // namespace sluice
