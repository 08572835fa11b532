#include "plan/partition/evaluation_partition.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUsage,
              {.what = what,
               .where = "evaluation of the model",
               .remedy = "cut the model elsewhere, or train without evaluations"});
}

std::vector<int> begins_of(const ModelSpec& model, const Partition& training) {
  const std::vector<LayerInfo>& layers = model.evaluation->layers;
  std::vector<int> begins = {0};
  for (std::size_t s = 1; s < training.stages.size(); ++s) {
    const int first = training.stages[s].layers.front();
    const std::string& name = model.layers[static_cast<std::size_t>(first)].name;
    const auto found = std::find_if(layers.begin() + begins.back() + 1, layers.end(),
                                    [&](const LayerInfo& layer) { return layer.name == name; });
    if (found == layers.end()) {
      refuse(
          formatted("stage {} starts at '{}', where the evaluation graph cannot be cut", s, name));
    }
    begins.push_back(static_cast<int>(found - layers.begin()));
  }
  begins.push_back(static_cast<int>(layers.size()));
  return begins;
}

std::vector<std::set<std::string>> names_by_rank(const ModelSpec& model,
                                                 const Partition& partition) {
  std::vector<std::set<std::string>> names(static_cast<std::size_t>(partition.num_ranks()));
  for (const StageContent& stage : partition.stages) {
    std::set<std::string>& own = names[static_cast<std::size_t>(stage.rank)];
    for (const int layer : stage.layers) {
      for (const ParameterSpec& parameter :
           model.layers[static_cast<std::size_t>(layer)].parameters) {
        own.insert(parameter.name);
        if (!parameter.tied_to.empty()) own.insert(parameter.tied_to);
      }
    }
  }
  return names;
}

}  // namespace

Partition evaluation_partition(const ModelSpec& model, const Partition& training) {
  const std::vector<int> begins = begins_of(model, training);
  const std::vector<std::set<std::string>> names = names_by_rank(model, training);
  Partition partition = training;
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    StageContent& stage = partition.stages[s];
    stage.recomputed.clear();
    stage.backward = StageBackward::kNone;
    stage.layers.resize(static_cast<std::size_t>(begins[s + 1] - begins[s]));
    std::iota(stage.layers.begin(), stage.layers.end(), begins[s]);
    for (const int i : stage.layers) {
      const LayerInfo& layer = model.evaluation->layers[static_cast<std::size_t>(i)];
      for (const ParameterSpec& parameter : layer.parameters) {
        const auto& own = names[static_cast<std::size_t>(stage.rank)];
        if (own.contains(parameter.name) || own.contains(parameter.tied_to)) continue;
        refuse(
            formatted("in evaluation, layer '{}' of rank {} reads '{}', which is on another rank",
                      layer.name, stage.rank, parameter.name));
      }
    }
  }
  return partition;
}

void require_evaluation(const Plan& plan) {
  if (plan.model.evaluation) evaluation_partition(plan.model, plan.partition);
}

}  // namespace sluice
