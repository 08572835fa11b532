#include "plan/trainable.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/name_pattern.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "plan/operator_costs.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

const std::string& first_use(const ParameterSpec& parameter) {
  return parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
}

[[noreturn]] void refuse_trainable(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`trainable`", .remedy = remedy});
}

// Estimates the cost of a frozen layer without known operators. `flows`: gradients flow through it,
// because an earlier layer is trained.
LayerCost cost_of_frozen(const LayerCost& trained, bool flows) {
  LayerCost cost = flows ? trained : LayerCost();
  cost.forward_flops = trained.forward_flops;
  cost.in_forward = trained.in_forward;
  cost.casted_weights = trained.casted_weights;
  cost.weight_flops = {};
  return cost;
}

LayerCost cost_of_trained(const LayerInfo& layer, bool flows, const TensorParallel& shares) {
  if (!layer.operators) return layer.trains() ? layer.cost : cost_of_frozen(layer.cost, flows);
  std::vector<std::string> trained;  // parameter names, without the layer's prefix
  for (const ParameterSpec& parameter : layer.parameters) {
    const bool inside = parameter.name.starts_with(layer.name + ".");
    if (parameter.trainable)
      trained.push_back(inside ? parameter.name.substr(layer.name.size() + 1) : parameter.name);
  }
  const auto trains = [&](const std::string& pattern) {
    return std::any_of(trained.begin(), trained.end(),
                       [&](const std::string& name) { return matches_pattern(pattern, name); });
  };
  const int num_slices = shares.num_slices();
  if (num_slices == 1) return cost_of(*layer.operators, trains, flows);
  const auto divides = [&](const std::string& pattern) {
    return std::any_of(
        layer.parameters.begin(), layer.parameters.end(), [&](const ParameterSpec& parameter) {
          return parameter.split && matches_pattern(layer.name + "." + pattern, parameter.name);
        });
  };
  const double part = 1.0 / shares.degree;
  return cost_of(*layer.operators, trains, flows,
                 {.columns = part,
                  .rows = shares.sequence ? part : 1.0,
                  .divides = divides,
                  .early_matrices = num_slices > shares.degree,
                  .early_norms = true});
}

// Returns "stages 0, 1 and 2".
std::string stages_text(const std::vector<int>& stages) {
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (i > 0) text += i + 1 == stages.size() ? " and " : ", ";
    text += std::to_string(stages[i]);
  }
  return text;
}

std::vector<std::string> words_of(const std::vector<std::string>& names) {
  std::set<std::string> words(names.begin(), names.end());
  for (const std::string& name : names) {
    for (std::size_t begin = 0; begin < name.size();) {
      const std::size_t end = std::min(name.find('.', begin), name.size());
      words.insert(name.substr(begin, end - begin));
      words.insert(name.substr(begin));
      begin = end + 1;
    }
  }
  return {words.begin(), words.end()};
}

std::string suggestion(const std::string& pattern, const std::vector<std::string>& names) {
  if (names.empty()) return "freeze your own layers by requires_grad in LayerSpec::make";
  std::string bare = pattern;
  std::erase(bare, '*');
  while (bare.starts_with('.')) bare.erase(0, 1);
  while (bare.ends_with('.')) bare.pop_back();
  // Hugging Face's options match parts of names, while ours are patterns.
  const bool is_part =
      !bare.empty() && std::any_of(names.begin(), names.end(), [&](const auto& name) {
        return name.find(bare) != std::string::npos;
      });
  if (is_part) return "did you mean '*" + bare + "*'?";
  const std::string near = nearest_name(bare, words_of(names));
  if (near.empty()) return "write names such as '" + names.front() + "'";
  const bool is_whole = std::find(names.begin(), names.end(), near) != names.end();
  return "did you mean '" + (is_whole ? near : "*" + near + "*") + "'?";
}

void require_matches(const char* option, const std::vector<std::string>& patterns,
                     const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches_pattern(pattern, name);
    });
    if (matches) continue;
    throw Error(ErrorKind::kUsage,
                {.what = std::string(option) + ": '" + pattern + "' matches no parameter",
                 .where = option,
                 .remedy = suggestion(pattern, names)});
  }
}

}  // namespace

std::vector<std::string> no_decay_patterns(const ModelSpec& model,
                                           const std::vector<std::string>& patterns) {
  std::vector<std::string> names, expanded = patterns;
  const bool has_word = std::erase(expanded, kNormsAndBiases) > 0;
  for (const LayerInfo& layer : model.layers) {
    if (model.family.empty() && !layer.parameters_known) {
      if (!has_word) return patterns;
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("`no_decay`: '{}' needs the parameters' shapes, which the "
                                     "plan does not know",
                                     kNormsAndBiases),
                   .where = "`no_decay`",
                   .remedy = "give name patterns such as \"*.bias\""});
    }
    for (const ParameterSpec& parameter : layer.parameters) {
      names.push_back(parameter.name);
      if (has_word && parameter.shape.size() <= 1) expanded.push_back(parameter.name);
    }
  }
  require_matches("`no_decay`", expanded, names);
  return expanded;
}

void set_costs_of_trained(ModelSpec& model, const TensorParallel& shares) {
  std::set<std::string> trained;  // values that need a gradient
  for (LayerInfo& layer : model.layers) {
    const bool flows = std::any_of(layer.reads.begin(), layer.reads.end(),
                                   [&](const std::string& name) { return trained.contains(name); });
    layer.cost = cost_of_trained(layer, flows, shares);
    for (const ValueSpec& value : layer.writes) {
      if (flows || layer.trains())
        trained.insert(value.name);
      else
        trained.erase(value.name);
    }
  }
}

void set_trainable(ModelSpec& model, const std::vector<std::string>& patterns) {
  if (patterns == std::vector<std::string>{"*"}) return;
  if (patterns.empty())
    refuse_trainable("`trainable` = [] freezes every parameter",
                     "name what to train, such as \"*norm*\"");
  for (const LayerInfo& layer : model.layers) {
    if (model.family.empty() && !layer.parameters_known)
      refuse_trainable(
          "the parameters of layer '" + layer.name + "' are not in the plan",
          "set requires_grad in LayerSpec::make, or plan with describe(layers, batch)");
  }
  std::vector<std::string> names;
  std::set<std::string> trained;  // a tied parameter counts where it is first used
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      names.push_back(parameter.name);
      if (matches_any(patterns, parameter.name)) trained.insert(first_use(parameter));
    }
  }
  require_matches("`trainable`", patterns, names);
  for (LayerInfo& layer : model.layers) {
    for (ParameterSpec& parameter : layer.parameters)
      parameter.trainable = parameter.trainable && trained.contains(first_use(parameter));
  }
  set_costs_of_trained(model);
}

void freeze_layers(ModelSpec& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  std::vector<std::string> names;
  for (const LayerInfo& layer : model.layers) names.push_back(layer.name);
  for (const std::string& pattern : patterns) {
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches_pattern(pattern, name);
    });
    if (matches) continue;
    throw Error(ErrorKind::kUsage, {.what = "`frozen_layers`: '" + pattern + "' matches no layer",
                                    .where = "`frozen_layers`",
                                    .remedy = suggest_name(pattern, names)});
  }
  for (LayerInfo& layer : model.layers) {
    if (!matches_any(patterns, layer.name)) continue;
    layer.frozen = true;
    for (ParameterSpec& parameter : layer.parameters) parameter.trainable = false;
  }
  set_costs_of_trained(model);
}

void require_something_to_train(const ModelSpec& model) {
  if (std::any_of(model.layers.begin(), model.layers.end(),
                  [](const LayerInfo& layer) { return layer.trains(); })) {
    return;
  }
  refuse_trainable("every parameter of the model is frozen", "leave something to train");
}

std::vector<StageBackward> backwards_of(const Partition& partition) {
  std::vector<StageBackward> backwards;
  for (const StageContent& stage : partition.stages) backwards.push_back(stage.backward);
  const bool all_full = std::all_of(backwards.begin(), backwards.end(), [](StageBackward backward) {
    return backward == StageBackward::kFull;
  });
  return all_full ? std::vector<StageBackward>() : backwards;
}

Costs drop_frozen_costs(Costs costs, const Partition& partition) {
  const auto is_end = [](const StageContent& stage) {
    return stage.backward == StageBackward::kWeights;
  };
  const auto& stages = partition.stages;
  if (std::none_of(stages.begin(), stages.end(), is_end)) return costs;
  costs.per_stage.resize(stages.size(), costs.uniform);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (is_end(stages[s])) costs.per_stage[s].backward -= costs.uniform.backward_input;
  }
  return costs;
}

std::vector<std::string> frozen_notes(const Partition& partition) {
  std::vector<int> without_backward, without_weights;
  for (const StageContent& stage : partition.stages) {
    if (stage.backward == StageBackward::kNone) without_backward.push_back(stage.stage);
    if (stage.backward == StageBackward::kInput) without_weights.push_back(stage.stage);
  }
  std::vector<std::string> notes;
  if (!without_backward.empty()) {
    notes.push_back("nothing up to " + stages_text(without_backward) +
                    " is trained: no backward there, and no gradient is sent there");
  }
  if (!without_weights.empty()) {
    notes.push_back("nothing of " + stages_text(without_weights) +
                    " is trained: it passes gradients on, without W");
  }
  return notes;
}

}  // namespace sluice::detail
