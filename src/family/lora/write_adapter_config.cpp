#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "kind/adapter_files.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

// Returns the ends of module names if they select exactly these modules, otherwise whole names.
std::set<std::string> targets_of(const Adapter& adapter, const ModelSpec& model) {
  std::set<std::string> whole, ends;
  for (const AdaptedLinear& layer : adapter.layers) {
    whole.insert(layer.name);
    ends.insert(layer.name.substr(layer.name.rfind('.') + 1));
  }
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (is_adapter_parameter(parameter.name)) continue;
      const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
      if (ends.contains(module.substr(module.rfind('.') + 1)) && !whole.contains(module))
        return whole;
    }
  }
  return ends;
}

Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

template <typename Value>
Value usual(const std::vector<Value>& values, Value fallback) {
  std::map<Value, int> counts;
  for (const Value& value : values) ++counts[value];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? fallback : most->first;
}

}  // namespace

std::string adapter_config(const Adapter& adapter, const ModelSpec& model,
                           const std::string& base) {
  std::vector<std::int64_t> ranks;
  std::vector<double> alphas;
  bool transposed = false;
  for (const AdaptedLinear& layer : adapter.layers) {
    ranks.push_back(layer.rank);
    alphas.push_back(layer.alpha);
    transposed = transposed || layer.transposed;
  }
  const std::int64_t rank = usual(ranks, std::int64_t{8});
  const double alpha = usual(alphas, 8.0);
  Json rank_pattern = Json::object(), alpha_pattern = rank_pattern;
  for (const AdaptedLinear& layer : adapter.layers) {
    if (layer.rank != rank) rank_pattern[layer.name] = layer.rank;
    if (layer.alpha != alpha) alpha_pattern[layer.name] = number(layer.alpha);
  }
  Json config;
  config["alpha_pattern"] = alpha_pattern;
  config["base_model_name_or_path"] = nullptr;
  if (!base.empty()) config["base_model_name_or_path"] = base;
  config["bias"] = "none";
  config["fan_in_fan_out"] = transposed;
  config["inference_mode"] = true;
  config["init_lora_weights"] = true;
  config["lora_alpha"] = number(alpha);
  config["lora_dropout"] = adapter.dropout;
  config["modules_to_save"] = nullptr;
  config["peft_type"] = "LORA";
  config["r"] = rank;
  config["rank_pattern"] = rank_pattern;
  config["target_modules"] = targets_of(adapter, model);
  config["task_type"] = "CAUSAL_LM";
  config["use_dora"] = false;
  config["use_rslora"] = adapter.rank_stabilized;
  return config.dump(2) + "\n";
}

}  // namespace sluice
