#include "train/evaluation_model.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "comm/gather_messages.h"
#include "plan/partition/evaluation_partition.h"
#include "sluice/error.h"

namespace sluice {
namespace {

Plan plan_of_evaluation(const Plan& plan, const RankModel& training) {
  const auto refuse = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = "Model::evaluation", .remedy = remedy});
  };
  if (!plan.model.evaluation)
    refuse("the plan has no layers for evaluation",
           "plan the model's own description (Model::description)");
  if (training.sharded)
    refuse("the weights are sharded, but evaluation runs other layers", "plan without zero3");
  Plan result = plan;
  result.partition = evaluation_partition(plan.model, plan.partition);
  result.model = *plan.model.evaluation;
  return result;
}

using Tensors = std::map<std::string, at::Tensor>;

Tensors parameters_of(const RankModel& rank) {
  Tensors tensors;
  for (Stage* stage : rank.stages.pointers()) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      tensors.emplace(parameter.name, parameter.tensor);
      if (!parameter.tied_to.empty()) tensors.emplace(parameter.tied_to, parameter.tensor);
    }
  }
  return tensors;
}

Tensors buffers_of(const RankModel& rank) {
  Tensors tensors;
  for (Stage* stage : rank.stages.pointers())
    for (const auto& [name, buffer] : stage->chunk().buffers()) tensors.emplace(name, buffer);
  return tensors;
}

std::vector<std::string> names_of(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

}  // namespace

EvaluationModel::EvaluationModel(const Model& model, const Plan& plan, RankModel& training,
                                 const Transport& transport, const RunOptions& options)
    : training_(training),
      plan_(plan_of_evaluation(plan, training)),
      end_(model),
      share_(model, plan_, transport.world(), transport.device(), options) {
  require_buffers();
}

// Rejects evaluation buffers that are trained only on other ranks, because their values on this
// rank would be outdated.
void EvaluationModel::require_buffers() {
  const Tensors own = buffers_of(training_);
  std::set<std::string> trained;
  const Packer message = Packer().add(names_of(own));
  for (Unpacker& of_rank :
       gather_messages(training_.groups.pipeline, message, "buffers of the evaluation")) {
    for (std::string& name : of_rank.take<std::vector<std::string>>())
      trained.insert(std::move(name));
    of_rank.finish();
  }
  std::vector<std::string> missing;
  for (const std::string& name : names_of(buffers_of(share_)))
    if (trained.contains(name) && !own.contains(name)) missing.push_back(name);
  for (Unpacker& of_rank : gather_messages(training_.groups.world, Packer().add(missing),
                                           "buffers that the evaluation lacks")) {
    const auto names = of_rank.take<std::vector<std::string>>();
    of_rank.finish();
    if (names.empty()) continue;
    throw Error(
        ErrorKind::kUsage,
        {.what = formatted("in evaluation a layer reads the buffer '{}', which is on another "
                           "rank",
                           names.front()),
         .where = "evaluation of the model",
         .remedy = "cut the model elsewhere, or train without evaluations"});
  }
}

void EvaluationModel::take_weights() {
  const Tensors parameters = parameters_of(training_), buffers = buffers_of(training_);
  for (Stage* stage : share_.stages.pointers()) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      const auto own = parameters.find(parameter.name);
      at::Tensor(parameter.tensor)
          .set_data(own != parameters.end() ? own->second : parameters.at(parameter.tied_to));
    }
    for (auto& [name, buffer] : stage->chunk().buffers())
      if (const auto own = buffers.find(name); own != buffers.end()) buffer.set_data(own->second);
  }
}

}  // namespace sluice
