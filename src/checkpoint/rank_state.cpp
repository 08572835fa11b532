#include "sluice/parts/saver.h"

#include <set>

#include "base/text.h"
#include "checkpoint/rank_state.h"
#include "layer/slice.h"
#include "sluice/error.h"

namespace sluice {
namespace {

void require_whole(const ParameterInfo& parameter) {
  if (parameter.is_whole()) return;
  throw Error(ErrorKind::kInternal,
              {.what = "'" + parameter.name + "' cannot be saved from " + to_text(parameter.slice) +
                       " of " + shape_text(parameter.global_shape) + " alone",
               .where = "weights of one rank",
               .remedy = "gather its slices first"});
}

}  // namespace

RankState state_of(const std::vector<Stage*>& stages) {
  RankState state;
  for (Stage* stage : stages) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      if (!parameter.tied_to.empty()) {
        state.ties.emplace(parameter.name, parameter.tied_to);
        continue;
      }
      require_whole(parameter);
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
