#include "sluice/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/name_pattern.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "family/families.h"
#include "family/lora/linear_layers.h"
#include "family/operators.h"
#include "kind/adapter_files.h"
#include "plan/trainable.h"
#include "sluice/error.h"

namespace sluice {

namespace detail {
namespace {

// PEFT has no adapters for routers and experts, because a block's experts form one tensor.
bool is_of_experts(const LayerInfo& layer, const std::string& name) {
  const std::string mark = ".experts.";
  if (name.find(mark) != std::string::npos) return true;
  const std::string siblings = name.substr(0, name.rfind('.')) + mark;
  return std::any_of(
      layer.parameters.begin(), layer.parameters.end(),
      [&](const ParameterSpec& parameter) { return parameter.name.starts_with(siblings); });
}

}  // namespace

std::vector<LinearLayer> linear_layers(const ModelSpec& model) {
  const Family* family = find_family(model.family);
  const std::string ending = ".weight";
  std::vector<LinearLayer> found;
  for (const LayerInfo& layer : model.layers) {
    if (layer.role != LayerRole::kBlock && layer.role != LayerRole::kHead) continue;
    const bool transposed = family && family->conv1d && layer.role == LayerRole::kBlock;
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.shape.size() != 2 || !parameter.name.ends_with(ending) ||
          is_adapter_parameter(parameter.name)) {
        continue;
      }
      std::string name = parameter.name.substr(0, parameter.name.size() - ending.size());
      if (is_of_experts(layer, name)) continue;
      LinearLayer& linear = found.emplace_back();
      linear.name = std::move(name);
      linear.out = parameter.shape[transposed ? 1 : 0];
      linear.in = parameter.shape[transposed ? 0 : 1];
      linear.transposed = transposed;
      linear.tied = !parameter.tied_to.empty();
      linear.is_head = layer.role == LayerRole::kHead;
    }
  }
  return found;
}

}  // namespace detail

namespace {

using detail::LinearLayer;

bool is_target(const std::string& pattern, const LinearLayer& layer) {
  return pattern == kAllLinear ? !layer.is_head : matches_pattern(pattern, layer.name);
}

// Whether each pattern that matches this tied layer also matches an untied layer.
bool matched_only_by_general_patterns(const std::vector<std::string>& patterns,
                                      const LinearLayer& layer,
                                      const std::vector<LinearLayer>& linear) {
  return std::all_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    if (!is_target(pattern, layer)) return true;
    return std::any_of(linear.begin(), linear.end(), [&](const LinearLayer& other) {
      return !other.tied && is_target(pattern, other);
    });
  });
}

[[noreturn]] void refuse(const std::string& option, const std::string& what,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = option, .remedy = remedy});
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string suggestion(const std::string& pattern, const std::vector<LinearLayer>& linear) {
  std::vector<std::string> names;
  for (const LinearLayer& layer : linear) {
    names.push_back(layer.name);
    if (std::string last = last_part(layer.name);
        std::find(names.begin(), names.end(), last) == names.end())
      names.push_back(std::move(last));
  }
  std::string bare = pattern;
  std::erase(bare, '*');
  while (bare.starts_with('.')) bare.erase(0, 1);
  const std::string near = nearest_name(bare, names);
  if (near.empty()) {
    std::erase_if(names, [](const std::string& name) { return name.find('.') != name.npos; });
    return "the linear layers end in: " + join(names, ", ");
  }
  return "did you mean '" + (near.find('.') == near.npos ? "*" + near : near) + "'?";
}

void insert_parameters(LayerInfo& layer, const AdaptedLinear& adapted) {
  const auto last = std::find_if(layer.parameters.rbegin(), layer.parameters.rend(),
                                 [&](const ParameterSpec& parameter) {
                                   return parameter.name == adapted.name + ".weight" ||
                                          parameter.name == adapted.name + ".bias";
                                 });
  const ParameterSpec a{adapted.a(), {adapted.rank, adapted.in}, {}, "float32", true, true};
  const ParameterSpec b{adapted.b(), {adapted.out, adapted.rank}, {}, "float32", true, true};
  layer.parameters.insert(last.base(), {a, b});
}

LayerInfo* layer_with(ModelSpec& model, const std::string& parameter) {
  for (LayerInfo& layer : model.layers) {
    for (const ParameterSpec& own : layer.parameters)
      if (own.name == parameter) return &layer;
  }
  return nullptr;
}

}  // namespace

double Adapter::scale(const AdaptedLinear& layer) const {
  const auto rank = static_cast<double>(layer.rank);
  return layer.alpha / (rank_stabilized ? std::sqrt(rank) : rank);
}

Adapter make_adapter(const ModelSpec& model, const LoraOptions& options) {
  if (options.rank < 1)
    refuse("`lora.rank`", "`lora.rank` = " + std::to_string(options.rank), "give at least 1");
  if (options.target.empty())
    refuse("`lora.target`", "`lora.target` = [] names no linear layer",
           "name some, such as \"*q_proj\"");
  const std::vector<LinearLayer> linear = detail::linear_layers(model);
  if (linear.empty())
    refuse("`lora.target`", "the model has no linear layers that sluice recognizes",
           "use another model");
  for (const std::string& pattern : options.target) {
    const bool matches = std::any_of(linear.begin(), linear.end(), [&](const LinearLayer& layer) {
      return is_target(pattern, layer);
    });
    if (!matches)
      refuse("`lora.target`", "`lora.target`: '" + pattern + "' matches no linear layer",
             suggestion(pattern, linear));
  }
  Adapter adapter;
  adapter.dropout = options.dropout;
  for (const LinearLayer& layer : linear) {
    const bool is_any = std::any_of(options.target.begin(), options.target.end(),
                                    [&](const auto& pattern) { return is_target(pattern, layer); });
    if (!is_any || (layer.tied && matched_only_by_general_patterns(options.target, layer, linear)))
      continue;
    if (layer.tied) {
      refuse("`lora.target`",
             "'" + layer.name + "' is tied to the embedding, so no adapter can be merged into it",
             "leave it out: \"*layers*\" matches the layers in the blocks of most models");
    }
    adapter.layers.push_back({.name = layer.name,
                              .rank = options.rank,
                              .in = layer.in,
                              .out = layer.out,
                              .alpha = options.alpha,
                              .transposed = layer.transposed});
  }
  return adapter;
}

namespace {

// Layers with adapters cannot use fused operators, so all layers use plain ones.
void count_plain_operators(ModelSpec& model, Precision precision) {
  const detail::Family* family = detail::find_family(model.family);
  if (!family || model.config_text.empty() || !precision.fuses()) return;
  precision.fused = false;
  const Json document =
      detail::language_config(detail::parse_config(model.config_text, "config.json"));
  const ModelSpec plain = family->read(detail::ConfigReader(document, "config.json"), precision);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].reads = plain.layers.at(i).reads;
    model.layers[i].writes = plain.layers.at(i).writes;
    model.layers[i].cost = plain.layers.at(i).cost;
    model.layers[i].operators = plain.layers.at(i).operators;
    model.layers[i].mask = plain.layers.at(i).mask;
  }
}

std::string name_inside(const LayerInfo& layer, const std::string& name) {
  return name == layer.name ? "" : name.substr(layer.name.size() + 1);
}

}  // namespace

ModelSpec with_adapter(ModelSpec model, const Adapter& adapter, const Precision& precision) {
  count_plain_operators(model, precision);
  std::map<std::string, LinearLayer> linear;
  for (LinearLayer& layer : detail::linear_layers(model)) {
    std::string name = layer.name;
    linear.emplace(std::move(name), std::move(layer));
  }
  for (LayerInfo& layer : model.layers) {
    for (ParameterSpec& parameter : layer.parameters) parameter.trainable = false;
  }
  std::map<LayerInfo*, std::vector<detail::LowRankPair>> of_layer;
  for (const AdaptedLinear& adapted : adapter.layers) {
    const auto own = linear.find(adapted.name);
    if (own == linear.end() || own->second.in != adapted.in || own->second.out != adapted.out) {
      refuse("Adapter::layers",
             formatted("the model has no linear layer '{}' from {} to {}", adapted.name, adapted.in,
                       adapted.out),
             "make the adapter of this model");
    }
    LayerInfo* const layer = layer_with(model, adapted.name + ".weight");
    insert_parameters(*layer, adapted);
    of_layer[layer].push_back({.name = name_inside(*layer, adapted.name),
                               .rank = adapted.rank,
                               .in = adapted.in,
                               .out = adapted.out});
  }
  for (const auto& [layer, pairs] : of_layer) {
    if (!layer->operators) continue;
    layer->operators = std::make_shared<const LayerOperators>(
        detail::with_low_rank(*layer->operators, pairs, adapter.dropout > 0, precision));
  }
  detail::set_costs_of_trained(model);
  return model;
}

}  // namespace sluice
