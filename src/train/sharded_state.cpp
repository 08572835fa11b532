#include "train/sharded_state.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "optim/optimizers.h"
#include "train/packed_parts.h"

namespace sluice {
namespace {

// Which replica gets each: the one that has got least so far.
std::vector<int> spread(const std::vector<ShardedTensor>& tensors, int num_replicas) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(num_replicas), 0);
  std::vector<int> receivers;
  for (const ShardedTensor& tensor : tensors) {
    const auto least = std::min_element(load.begin(), load.end());
    receivers.push_back(static_cast<int>(least - load.begin()));
    *least += c10::multiply_integers(tensor.shape) *
              static_cast<std::int64_t>(tensor.options.dtype().itemsize());
  }
  return receivers;
}

std::map<std::string, at::Tensor> by_name(const Optimizer& optimizer) {
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, tensor] : optimizer.state()) tensors.emplace(name, tensor);
  return tensors;
}

}  // namespace

NamedTensors gather_whole(const std::vector<ShardedTensor>& tensors, const RunGroups& groups) {
  const at::NoGradGuard no_grad;
  const std::vector<int> receivers = spread(tensors, groups.num_replicas);
  std::vector<at::Tensor> pieces(static_cast<std::size_t>(groups.num_replicas));
  for (int replica = 0; replica < groups.num_replicas; ++replica) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (receivers[i] == replica && tensors[i].own.defined())
        parts.push_back(tensors[i].own.contiguous().view(-1));
    }
    if (!parts.empty())
      pieces[static_cast<std::size_t>(replica)] = pack_parts(parts, parts.front().device());
  }
  const std::vector<at::Tensor> given = groups.replicas.all_to_all(std::move(pieces)).wait();

  NamedTensors gathered;
  std::map<std::size_t, std::size_t> place;  // of a tensor in `gathered`
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (receivers[i] != groups.replica) continue;
    place[i] = gathered.size();
    gathered.emplace_back(tensors[i].name, at::empty(tensors[i].shape, tensors[i].options));
  }
  for (std::size_t giver = 0; giver < given.size(); ++giver) {
    std::vector<std::size_t> of_giver;
    std::vector<PartMeta> metas;
    for (const auto& [i, at] : place) {
      if (!tensors[i].of_replica[giver]) continue;
      of_giver.push_back(i);
      metas.push_back({tensors[i].of_replica[giver]->size(),
                       c10::typeMetaToScalarType(tensors[i].options.dtype())});
    }
    const std::vector<at::Tensor> parts = unpack_parts(given[giver], metas);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::size_t i = of_giver[k];
      set_elements(gathered[place[i]].second, *tensors[i].of_replica[giver], parts[k]);
    }
  }
  return gathered;
}

std::vector<ShardedTensor> list_state(const ShardedState& state, const RunGroups& groups) {
  const auto own = by_name(state.optimizer);
  std::vector<ShardedTensor> tensors;
  for (const SharedParameter& parameter : state.parameters) {
    if (parameter.owner() != groups.place()) continue;
    const ParameterUse& use = parameter.uses.front();
    for (const StateKind& kind : state_kinds(state.kind, use.value())) {
      ShardedTensor& tensor = tensors.emplace_back();
      tensor.name = kind.name + "/" + parameter.name;
      if (kind.per_element) tensor.shape = use.value().sizes().vec();
      tensor.options = at::TensorOptions(use.value().device()).dtype(kind.dtype);
      for (int replica = 0; replica < groups.num_replicas; ++replica) {
        auto range = state.owners.range(use.stage->index(), use.index, replica);
        // A number that all owners have alike is the first one's.
        if (range && !kind.per_element && range->begin != 0) range.reset();
        if (range && !kind.per_element) range->end = 1;
        tensor.of_replica.push_back(range);
      }
      if (tensor.of_replica[static_cast<std::size_t>(groups.replica)])
        tensor.own = own.at(tensor.name);
    }
  }
  return tensors;
}

std::vector<StatePart> parts_of(const ShardedState& state, int replica) {
  const auto own = by_name(state.optimizer);
  std::vector<StatePart> parts;
  for (const SharedParameter& parameter : state.parameters) {
    const ParameterUse* use = parameter.local_use();
    if (!use) continue;
    const auto range = state.owners.range(use->stage->index(), use->index, replica);
    if (!range) continue;
    for (const StateKind& kind : state_kinds(state.kind, use->value())) {
      const std::string name = kind.name + "/" + parameter.name;
      StatePart& part = parts.emplace_back(StatePart{name, own.at(name), {}, 0});
      if (!kind.per_element) continue;
      part.shape = use->value().sizes().vec();
      part.begin = range->begin;
    }
  }
  return parts;
}

}  // namespace sluice
