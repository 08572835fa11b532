#include <optional>
#include <string>
#include <vector>

#include "config/model_kinds.h"
#include "config/option_keys.h"
#include "config/origins.h"
#include "config/run_config.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::string place_of(const RunConfig& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  return origin == config.origins.end() ? key : origin->second;
}

[[noreturn]] void refuse(const RunConfig& config, const std::string& key, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = place_of(config, key), .remedy = remedy});
}

void require_no_contradiction(const RunConfig& config, const Adapter& adapter) {
  const AdaptedLinear& first = adapter.layers.front();
  const LoraOptions& lora = config.lora;
  const auto refuse_key = [&](const std::string& key) {
    refuse(config, key,
           key + " contradicts the adapter of model.adapter, whose adapter_config.json applies",
           "leave " + key + " out");
  };
  if (is_set(config, "lora.rank") && lora.rank != first.rank) refuse_key("lora.rank");
  if (is_set(config, "lora.alpha") && lora.alpha != first.alpha) refuse_key("lora.alpha");
  if (is_set(config, "lora.dropout") && lora.dropout != adapter.dropout) refuse_key("lora.dropout");
}

void require_alone(const RunConfig& config, const std::string& key) {
  if (config.training.trainable != TrainingOptions().trainable) {
    refuse(config, "training.trainable", "training.trainable and " + key + " exclude each other",
           "leave training.trainable out: only the adapter trains");
  }
}

// Compares matched layers, because different patterns can match the same layers.
void require_same_target(const RunConfig& config, const Adapter& adapter, const ModelSpec& model) {
  if (!is_set(config, "lora.target")) return;
  LoraOptions options = config.lora;
  options.rank = 1;
  std::vector<std::string> matched, own;
  for (const AdaptedLinear& layer : make_adapter(model, options).layers)
    matched.push_back(layer.name);
  for (const AdaptedLinear& layer : adapter.layers) own.push_back(layer.name);
  if (matched == own) return;
  refuse(config, "lora.target", "lora.target matches other layers than model.adapter has",
         "leave lora.target out");
}

Adapter stored_adapter(const RunConfig& config, const ModelSpec& model) {
  require_alone(config, "model.adapter");
  Adapter adapter = read_adapter(config.model.adapter, model);
  require_no_contradiction(config, adapter);
  require_same_target(config, adapter, model);
  return adapter;
}

}  // namespace

void require_adapter_base(const RunConfig& config) {
  const bool is_stored = !config.model.adapter.empty();
  if ((!is_stored && config.lora.rank == 0) || !config.model.path.empty()) return;
  if (!detail::has_feature(config, ModelFeature::kNewAdapter)) return;
  const std::string key = is_stored ? "model.adapter" : "lora.rank";
  refuse(config, key,
         key + " needs the weights of its base model, but model.config alone draws random weights",
         "set model.path to the directory of the base model");
}

std::optional<Adapter> adapter_of_config(const RunConfig& config, const ModelSpec& model) {
  try {
    if (!config.model.adapter.empty()) return stored_adapter(config, model);
    if (config.lora.rank == 0) return std::nullopt;
    require_alone(config, "lora.rank");
    return make_adapter(model, config.lora);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    throw detail::with_places(config, error);
  }
}

}  // namespace sluice
