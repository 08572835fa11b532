#include "plan/expert_parallel.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>

#include "base/format.h"
#include "base/text.h"
#include "plan/operator_costs.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr const char* kExpertDegree = "`expert_parallel.degree`";

[[noreturn]] void refuse_experts(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = kExpertDegree, .remedy = remedy});
}

// Returns the number of the expert that has the parameter.
std::optional<int> expert_of(const LayerInfo& layer, const std::string& parameter) {
  if (!layer.operators || !parameter.starts_with(layer.name + ".")) return std::nullopt;
  const std::string name = parameter.substr(layer.name.size() + 1);
  for (const Operator& each : layer.operators->all) {
    if (each.num_experts == 0) continue;
    for (const std::string& pattern : each.weights) {
      const std::string before = pattern.substr(0, pattern.find('*'));
      if (!name.starts_with(before)) continue;
      int expert = 0;
      std::from_chars(name.data() + before.size(), name.data() + name.size(), expert);
      return expert;
    }
  }
  return std::nullopt;
}

std::string divisors_text(int number) {
  std::vector<std::string> divisors;
  for (int divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) divisors.push_back(std::to_string(divisor));
  return join(divisors, ", ");
}

// Options that expert parallelism does not support, each with its remedy.
void require_combinable(const ModelSpec& model, const PipelineOptions& options) {
  const DataParallel& replicas = options.data_parallel;
  const auto refuse = [&](bool is_set, const std::string& what, const std::string& remedy) {
    if (is_set)
      refuse_experts(formatted("{} = {} with {} is not built yet", kExpertDegree,
                               options.expert_parallel.degree, what),
                     remedy);
  };
  refuse(options.tensor_parallel.num_slices() > 1, "`tensor_parallel.degree`",
         "set the degree and slices of tensor parallelism to 1");
  refuse(replicas.reduction != Reduction::kExact, "`data_parallel.reduction`",
         "set the reduction to \"exact\"");
  refuse(replicas.per_microbatch, "`data_parallel.per_microbatch`", "reduce gradients once a step");
  refuse(replicas.num_shards() != replicas.degree, "`data_parallel.shards`",
         "set the shards to 0, as many as the replicas");
  const bool has_adapter =
      std::any_of(model.layers.begin(), model.layers.end(), [](const LayerInfo& layer) {
        return std::any_of(layer.parameters.begin(), layer.parameters.end(),
                           [](const ParameterSpec& parameter) { return parameter.of_adapter; });
      });
  refuse(has_adapter, "adapters", "train without LoRA, or set the degree to 1");
}

// All ranks run the same exchanges and list the same parameters only if a layer trains the same
// parameters of each of its experts.
void require_alike_experts(const LayerInfo& layer) {
  std::map<std::string, bool> trains;  // by the name without the expert's number
  for (const ParameterSpec& parameter : layer.parameters) {
    const std::optional<int> expert = expert_of(layer, parameter.name);
    if (!expert) continue;
    const std::string number = "." + std::to_string(*expert) + ".";
    std::string name = parameter.name;
    name.replace(name.rfind(number), number.size(), ".*.");
    if (trains.emplace(name, parameter.trainable).first->second == parameter.trainable) continue;
    refuse_experts(formatted("only some experts of '{}' train", name),
                   "train or freeze this parameter of all experts of the layer");
  }
}

}  // namespace

int num_experts(const LayerInfo& layer) {
  int experts = 0;
  if (!layer.operators) return experts;
  for (const Operator& each : layer.operators->all) experts = std::max(experts, each.num_experts);
  return experts;
}

int experts_per_token(const LayerInfo& layer) {
  int experts = 0;
  if (!layer.operators) return experts;
  for (const Operator& each : layer.operators->all)
    experts = std::max(experts, each.experts_per_token);
  return experts;
}

bool is_of_expert(const LayerInfo& layer, const std::string& parameter) {
  return expert_of(layer, parameter).has_value();
}

bool is_shared_expert(const LayerInfo& layer, const std::string& parameter,
                      const PipelineOptions& options) {
  return options.expert_parallel.degree > 1 && is_of_expert(layer, parameter);
}

void check_expert_parallel(const ModelSpec& model, const PipelineOptions& options) {
  const int degree = options.expert_parallel.degree, replicas = options.data_parallel.degree;
  if (degree == 1) return;
  if (degree < 1) refuse_experts(formatted("{} = {}", kExpertDegree, degree), "give at least 1");
  int experts = 0;
  bool is_described = false;
  for (const LayerInfo& layer : model.layers) {
    experts = std::gcd(experts, num_experts(layer));
    is_described |= layer.operators != nullptr;
  }
  // A description of modules has no operators. The pipeline then checks its modules.
  if (!is_described) experts = degree;
  if (experts == 0) {
    refuse_experts(formatted("the model has no experts for {} = {}", kExpertDegree, degree),
                   "set the degree to 1, or give a Mixtral, Qwen3-MoE or OLMoE");
  }
  require_combinable(model, options);
  for (const LayerInfo& layer : model.layers) require_alike_experts(layer);
  if (experts % degree == 0 && replicas % degree == 0) return;
  refuse_experts(formatted("{} = {} does not divide {} {}", kExpertDegree, degree,
                           experts % degree != 0 ? experts : replicas,
                           experts % degree != 0 ? "experts" : "replicas"),
                 "give one of " + divisors_text(std::gcd(experts, replicas)) +
                     " for these experts and replicas");
}

std::int64_t most_held(const LayerInfo& layer, const ParameterSpec& parameter,
                       const PipelineOptions& options) {
  const int degree = options.expert_parallel.degree;
  const std::optional<int> expert =
      degree > 1 ? expert_of(layer, parameter.name) : std::optional<int>();
  // All ranks hold equally many experts of one size, so count the first rank's.
  if (expert && *expert >= num_experts(layer) / degree) return 0;
  return most_held(parameter, options.tensor_parallel);
}

void divide_casted_experts(ModelSpec& model, const ExpertParallel& options) {
  if (options.degree == 1) return;
  for (LayerInfo& layer : model.layers) {
    if (!layer.operators) continue;
    for (const Operator& each : layer.operators->all) {
      if (each.num_experts > 0 && layer.cost.casted_weights > 0)
        layer.cost.casted_weights -= each.casted_weights * (1.0 - 1.0 / options.degree);
    }
  }
}

}  // namespace sluice::detail
