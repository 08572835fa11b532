#include "train/parameter_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "comm/gather_messages.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Whether an axis has several ranks. Only then is the last rank not first on all axes.
bool has_replicas(const ParameterInfo& info, const Mesh& mesh) {
  return !mesh.is_first(mesh.num_ranks() - 1, info.replicated);
}

Packer write_uses(const std::vector<Stage*>& stages, const Mesh& mesh, int rank) {
  Packer message;
  std::size_t num_uses = 0;
  for (Stage* stage : stages) num_uses += stage->parameters().size();
  message.add(num_uses);
  for (Stage* stage : stages) {
    int layer = -1, position = 0;
    for (const ParameterInfo& info : stage->parameters()) {
      position = info.layer == layer ? position + 1 : 0;
      layer = info.layer;
      message.add(layer).add(position).add(mesh.is_first(rank, info.replicated));
      message.add(info.trainable).add(has_replicas(info, mesh));
      message.add(info.split.has_value()).add(!info.summed.empty()).add(info.of_expert);
      message.add(info.slices.begin).add(info.slices.end).add(info.slices.count);
      message.add(info.tied_to.empty() ? info.name : info.tied_to).add(info.name);
    }
  }
  return message;
}

void attach_local_stages(std::map<std::string, SharedParameter>& parameters,
                         const std::vector<Stage*>& stages) {
  for (Stage* stage : stages) {
    for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
      const ParameterInfo& info = stage->parameters()[i];
      if (!info.trainable) continue;
      for (ParameterUse& use :
           parameters.at(info.tied_to.empty() ? info.name : info.tied_to).uses) {
        if (use.name != info.name) continue;
        use.stage = stage;
        use.index = i;
      }
    }
  }
}

void require_one_owner(const SharedParameter& parameter) {
  std::set<std::string> names;
  for (const ParameterUse& use : parameter.uses) {
    if (!names.insert(use.name).second) {
      throw Error(ErrorKind::kInternal,
                  {.what = "parameter '" + use.name + "' is on more than one stage"});
    }
  }
  if (parameter.uses.front().name != parameter.name) {
    throw Error(ErrorKind::kInternal,
                {.what = "parameter '" + parameter.uses.front().name + "' is tied to '" +
                         parameter.name + "', which no earlier layer has"});
  }
}

void set_slices(SharedParameter& parameter) {
  const ParameterUse& first = parameter.uses.front();
  parameter.is_divided = first.is_divided;
  parameter.slices = first.slices;
  bool fits = true;
  for (std::size_t i = 0; fits && i < parameter.uses.size(); ++i) {
    const ParameterUse& use = parameter.uses[i];
    fits = use.is_divided == first.is_divided && use.slices.count == first.slices.count;
    if (parameter.is_shared_by_slices) {
      const int begin = first.slices.begin + static_cast<int>(i);
      fits = fits && !use.is_divided && use.layer == first.layer && use.slices.begin == begin;
      parameter.slices.end = begin + 1;
    } else {
      fits = fits && (!use.is_divided || use.slices == first.slices);
    }
  }
  if (fits) return;
  throw Error(ErrorKind::kUsage,
              {.what = "the uses of '" + parameter.name +
                       "' do not have the same slices in the "
                       "same order",
               .where = "ParameterSlices",
               .remedy = "divide tied parameters alike, and give a weight that all slices share "
                         "one use per slice of the rank, in one layer"});
}

// Rejects replicated ties across ranks, because each replica would need its own group to sum the
// gradients.
void require_one_replica_of_tie(const SharedParameter& parameter) {
  if (parameter.ranks.size() < 2) return;
  for (const ParameterUse& use : parameter.uses) {
    if (!use.has_replicas) continue;
    throw Error(ErrorKind::kInternal,
                {.what = "'" + use.name + "' is tied across ranks and replicated: such a tie is " +
                         "not summed"});
  }
}

// Makes one group per set of ranks that share a tie, in the same order on all ranks.
void make_groups(std::vector<SharedParameter>& parameters, const Group& world) {
  std::map<std::vector<int>, Group> groups;
  for (SharedParameter& parameter : parameters) {
    const std::vector<int>& ranks = parameter.ranks;
    if (ranks.size() < 2) continue;
    if (!groups.contains(ranks)) {
      const bool is_member = std::binary_search(ranks.begin(), ranks.end(), world.rank());
      groups[ranks] = world.split(is_member ? 0 : -1);
    }
    parameter.group = groups[ranks];
  }
}

// Rejects partly frozen ties, because updates would not reach a frozen use on another rank.
void require_ties_of_one_kind(const std::map<std::string, SharedParameter>& trained,
                              const std::map<std::string, std::string>& frozen) {
  for (const auto& [first_use, name] : frozen) {
    const auto found = trained.find(first_use);
    if (found == trained.end()) continue;
    throw Error(ErrorKind::kUsage,
                {.what = "'" + name + "' is frozen, but '" + found->second.uses.front().name +
                         "', which is tied to it, trains",
                 .where = "LayerSpec::ties",
                 .remedy = "freeze all uses of a tied parameter, or none"});
  }
}

}  // namespace

const ParameterUse* SharedParameter::local_use() const {
  const auto use =
      std::find_if(uses.begin(), uses.end(), [](const ParameterUse& u) { return u.stage; });
  return use == uses.end() ? nullptr : &*use;
}

std::vector<SharedParameter> list_parameters(const std::vector<Stage*>& stages, const Group& world,
                                             const Mesh& mesh) {
  std::map<std::string, SharedParameter> by_name;
  std::map<std::string, std::string> frozen;  // first use -> frozen use
  int rank = 0;
  for (Unpacker& message :
       gather_messages(world, write_uses(stages, mesh, world.rank()), "list of parameters")) {
    for (auto num_uses = message.take<std::size_t>(); num_uses > 0; --num_uses) {
      ParameterUse use;
      use.rank = rank;
      use.layer = message.take<int>();
      use.position = message.take<int>();
      const bool stands_for_it = message.take<bool>();
      const bool trainable = message.take<bool>();
      use.has_replicas = message.take<bool>();
      use.is_divided = message.take<bool>();
      const bool is_partial = message.take<bool>();
      use.of_expert = message.take<bool>();
      use.slices.begin = message.take<int>();
      use.slices.end = message.take<int>();
      use.slices.count = message.take<int>();
      const auto first_use = message.take<std::string>();
      use.name = message.take<std::string>();
      if (!stands_for_it) continue;
      if (trainable) {
        by_name[first_use].is_shared_by_slices |= is_partial;
        by_name[first_use].uses.push_back(std::move(use));
      } else {
        frozen[first_use] = use.name;
      }
    }
    message.finish();
    ++rank;
  }
  require_ties_of_one_kind(by_name, frozen);
  attach_local_stages(by_name, stages);

  std::vector<SharedParameter> parameters;
  for (auto& [name, parameter] : by_name) {
    parameter.name = name;
    std::sort(parameter.uses.begin(), parameter.uses.end(), [](const auto& a, const auto& b) {
      return std::tie(a.layer, a.position) < std::tie(b.layer, b.position);
    });
    require_one_owner(parameter);
    set_slices(parameter);
    std::set<int> ranks;
    for (const ParameterUse& use : parameter.uses) ranks.insert(use.rank);
    parameter.ranks.assign(ranks.begin(), ranks.end());
    parameter.place = parameter.owner();
    require_one_replica_of_tie(parameter);
    parameters.push_back(std::move(parameter));
  }
  std::sort(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
    return std::tie(a.uses[0].layer, a.uses[0].position) <
           std::tie(b.uses[0].layer, b.uses[0].position);
  });
  make_groups(parameters, world);
  return parameters;
}

std::vector<SharedParameter> with_other_experts(std::vector<SharedParameter> own,
                                                const RunGroups& groups) {
  if (groups.num_experts_ranks == 1) return own;
  Packer message;
  std::map<int, int> first_expert;  // position of each layer's first expert
  std::size_t num_experts = 0;
  for (SharedParameter& parameter : own) {
    const ParameterUse& use = parameter.uses.front();
    if (!use.of_expert) continue;
    parameter.expert_coordinate = groups.expert_coordinate;
    first_expert.emplace(use.layer, use.position);
    ++num_experts;
  }
  message.add(num_experts);
  for (const SharedParameter& parameter : own) {
    const ParameterUse& use = parameter.uses.front();
    if (use.of_expert)
      message.add(parameter.name).add(use.layer).add(use.position).add(parameter.place);
  }
  int coordinate = 0;
  for (Unpacker& of_rank : gather_messages(groups.experts, message, "list of experts")) {
    for (auto left = of_rank.take<std::size_t>(); left > 0; --left) {
      SharedParameter parameter;
      ParameterUse& use = parameter.uses.emplace_back();
      use.name = parameter.name = of_rank.take<std::string>();
      use.layer = of_rank.take<int>();
      use.position = of_rank.take<int>();
      use.rank = SharedParameter::kElsewhere;
      use.of_expert = true;
      parameter.place = of_rank.take<int>();
      parameter.expert_coordinate = coordinate;
      if (coordinate != groups.expert_coordinate) own.push_back(std::move(parameter));
    }
    of_rank.finish();
    ++coordinate;
  }
  // In the order of one rank with all experts.
  const auto order = [&](const SharedParameter& parameter) {
    const ParameterUse& use = parameter.uses.front();
    const auto first = first_expert.find(use.layer);
    const bool is_behind =
        !use.of_expert && first != first_expert.end() && use.position > first->second;
    return std::tuple(use.layer, use.of_expert ? 1 : 2 * static_cast<int>(is_behind),
                      parameter.expert_coordinate.value_or(0), use.position);
  };
  std::stable_sort(own.begin(), own.end(),
                   [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return own;
}

}  // namespace sluice
