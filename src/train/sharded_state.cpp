#include "train/sharded_state.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "comm/gather_messages.h"
#include "optim/optimizers.h"
#include "optim/packed_parts.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

std::vector<int> spread(const std::vector<ShardedTensor>& tensors, int num_replicas) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(num_replicas), 0);
  std::vector<int> receivers;
  for (const ShardedTensor& tensor : tensors) {
    const auto least = std::min_element(load.begin(), load.end());
    receivers.push_back(static_cast<int>(least - load.begin()));
    *least += tensor.elements * static_cast<std::int64_t>(tensor.options.dtype().itemsize());
  }
  return receivers;
}

std::int64_t elements_of_whole(const ParameterUse& use, bool per_element) {
  return per_element ? c10::multiply_integers(use.stage->parameters()[use.index].global_shape) : 1;
}

std::map<std::string, at::Tensor> by_name(const Optimizer& optimizer) {
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, tensor] : optimizer.state()) tensors.emplace(name, tensor);
  return tensors;
}

struct StatesOfReplicas {
  std::map<std::string, std::map<std::string, at::ScalarType>> types;
  std::vector<std::set<std::string>> of_replica;
};

StatesOfReplicas exchange_names(const NamedTensors& own, const Group& replicas) {
  std::vector<std::string> names;
  std::vector<int> types;
  for (const auto& [name, tensor] : own) {
    names.push_back(name);
    types.push_back(static_cast<int>(tensor.scalar_type()));
  }
  StatesOfReplicas states;
  const Packer message = Packer().add(names).add(types);
  for (Unpacker& of_replica : gather_messages(replicas, message, "state of the optimizers")) {
    const auto theirs = of_replica.take<std::vector<std::string>>();
    const auto their_types = of_replica.take<std::vector<int>>();
    of_replica.finish();
    states.of_replica.emplace_back(theirs.begin(), theirs.end());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      states.types[theirs[i].substr(theirs[i].find('/') + 1)].emplace(
          theirs[i], static_cast<at::ScalarType>(their_types.at(i)));
    }
  }
  return states;
}

// Sets each replica's range of the tensor. A single number is equal on all owners, so only the
// first block's owner provides it.
void add_shares(ShardedTensor& tensor, const BlockOwners& owners, const ParameterUse& use,
                bool per_element, int num_replicas) {
  for (int replica = 0; replica < num_replicas; ++replica) {
    auto range = owners.range(use.stage->index(), use.index, replica);
    if (range && !per_element && range->begin != 0) range.reset();
    if (range && !per_element) range->end = 1;
    tensor.of_replica.push_back(range);
  }
}

void require_state(const std::set<std::string>& of_replica, std::size_t replica,
                   const std::string& name) {
  if (of_replica.contains(name)) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("the optimizer of replica {} has no '{}' of its own blocks, but "
                                 "those of other replicas have it",
                                 replica, name),
               .where = "Pipeline::save",
               .remedy = "make the optimizers of all replicas alike, of pipeline.parameters()"});
}

}  // namespace

namespace {

// tensors: those of all holders, in the same order. [holder] ranges are `of_replica` of the
// holders' replicas.
NamedTensors gather_among(const Holders& holders, const std::vector<ShardedTensor>& tensors) {
  const std::vector<int> receivers = spread(tensors, holders.count);
  std::vector<at::Tensor> pieces(static_cast<std::size_t>(holders.count));
  for (int holder = 0; holder < holders.count; ++holder) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (receivers[i] == holder && tensors[i].own.defined())
        parts.push_back(tensors[i].own.contiguous().view(-1));
    }
    if (!parts.empty())
      pieces[static_cast<std::size_t>(holder)] = pack_parts(parts, parts.front().device());
  }
  const std::vector<at::Tensor> given =
      holders.group ? holders.group.all_to_all(std::move(pieces)).wait() : std::move(pieces);

  NamedTensors gathered;
  std::map<std::size_t, std::size_t> place;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (receivers[i] != holders.index) continue;
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

}  // namespace

NamedTensors gather_whole(const std::vector<ShardedTensor>& tensors, const RunGroups& groups) {
  const at::NoGradGuard no_grad;
  NamedTensors gathered;
  for (const bool are_experts : {false, true}) {
    const Holders holders = groups.holders_of(are_experts);
    if (are_experts && groups.num_experts_ranks == 1) break;
    std::vector<ShardedTensor> held;
    for (ShardedTensor tensor : tensors) {
      if (tensor.of_expert != are_experts) continue;
      std::vector<std::optional<ElementRange>> of_holder;
      for (int holder = 0; holder < holders.count; ++holder)
        of_holder.push_back(tensor.of_replica[static_cast<std::size_t>(
            groups.replica_of_holder(are_experts, holder))]);
      tensor.of_replica = std::move(of_holder);
      held.push_back(std::move(tensor));
    }
    for (auto& tensor : gather_among(holders, held)) gathered.push_back(std::move(tensor));
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
      tensor.of_expert = use.of_expert;
      if (kind.per_element) tensor.shape = use.value().sizes().vec();
      tensor.elements = elements_of_whole(use, kind.per_element);
      tensor.options = at::TensorOptions(use.value().device()).dtype(kind.dtype);
      add_shares(tensor, state.owners, use, kind.per_element, groups.num_replicas);
      if (tensor.of_replica[static_cast<std::size_t>(groups.replica)])
        tensor.own = own.at(tensor.name);
    }
  }
  return tensors;
}

std::vector<StatePart> parts_of(const ShardedState& state, std::optional<int> replica) {
  const auto own = by_name(state.optimizer);
  std::vector<StatePart> parts;
  for (const SharedParameter& parameter : state.parameters) {
    const ParameterUse* use = parameter.local_use();
    if (!use) continue;
    const auto range = replica ? state.owners.range(use->stage->index(), use->index, *replica)
                               : ElementRange{use->index, 0, use->value().numel()};
    if (!range) continue;
    for (const StateKind& kind : state_kinds(state.kind, use->value())) {
      const std::string name = kind.name + "/" + parameter.name;
      StatePart& part = parts.emplace_back(StatePart{name, own.at(name), {}, 0});
      if (!kind.per_element) continue;
      const ParameterInfo& info = use->stage->parameters()[use->index];
      part.shape = info.global_shape;
      part.begin = range->begin;
      part.parameter = &info;
    }
  }
  return parts;
}

NamedTensors gather_callers_state(const NamedTensors& own, const RankModel& rank) {
  const std::map<std::string, at::Tensor> own_by_name(own.begin(), own.end());
  const StatesOfReplicas states = exchange_names(own, rank.groups.replicas);
  std::vector<ShardedTensor> tensors;
  for (const SharedParameter& parameter : rank.parameters) {
    const auto of_parameter = states.types.find(parameter.name);
    if (parameter.owner() != rank.groups.place() || of_parameter == states.types.end()) continue;
    const ParameterUse& use = parameter.uses.front();
    for (const auto& [name, type] : of_parameter->second) {
      const bool per_element = !name.starts_with("step/");
      ShardedTensor& tensor = tensors.emplace_back();
      tensor.name = name;
      tensor.of_expert = use.of_expert;
      if (per_element) tensor.shape = use.value().sizes().vec();
      tensor.elements = elements_of_whole(use, per_element);
      tensor.options =
          at::TensorOptions(per_element ? use.value().device() : at::Device(at::kCPU)).dtype(type);
      for (std::size_t replica = 0; replica < states.of_replica.size(); ++replica) {
        if (rank.owners.range(use.stage->index(), use.index, static_cast<int>(replica)))
          require_state(states.of_replica[replica], replica, name);
      }
      add_shares(tensor, rank.owners, use, per_element, rank.groups.num_replicas);
      if (tensor.of_replica[static_cast<std::size_t>(rank.groups.replica)])
        tensor.own = own_by_name.at(name);
    }
  }
  return gather_whole(tensors, rank.groups);
}

}  // namespace sluice
