#include "sluice/parts/saver.h"

#include <set>

#include "checkpoint/rank_state.h"

namespace sluice {
RankState state_of(const std::vector<Stage*>& stages) {
  RankState state;
  for (Stage* stage : stages) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      if (!parameter.tied_to.empty()) {
        // Weights that slices share have uses without a name in the model.
        if (parameter.summed.empty()) state.ties.emplace(parameter.name, parameter.tied_to);
        continue;
      }
      state.parameters.emplace_back(parameter.name, parameter.tensor.detach());
    }
    for (auto& [name, tensor] : stage->chunk().buffers())
      state.buffers.emplace_back(name, tensor.detach());
  }
  return state;
}

NamedTensors optimizer_state_of(const RankState& state, const NamedTensors& all) {
  std::set<std::string_view> own;
  for (const auto& [name, tensor] : state.parameters) own.insert(name);
  NamedTensors kept;
  for (const auto& [name, tensor] : all) {
    if (own.contains(std::string_view(name).substr(name.find('/') + 1)))
      kept.emplace_back(name, tensor.detach());
  }
  return kept;
}

}  // namespace sluice
