#include "plan/recompute.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/class_name.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using Names = std::vector<std::string>;

[[noreturn]] void refuse_recompute(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "`activation_checkpoint`", .remedy = remedy});
}

Names names_in(const ModelSpec& model, bool of_classes) {
  std::set<std::string> names;
  for (const LayerInfo& layer : model.layers) {
    const std::string& name = of_classes ? layer.class_name : layer.name;
    if (!name.empty()) names.insert(name);
  }
  return {names.begin(), names.end()};
}

void require_names(const ModelSpec& model, const ActivationCheckpoint& which) {
  const bool of_classes = which.kind == ActivationCheckpoint::kClasses;
  if (which.names.empty()) {
    refuse_recompute("`activation_checkpoint` is an empty list",
                     "name layers, or write \"none\" or \"full\"");
  }
  const Names known = names_in(model, of_classes);
  for (const std::string& name : which.names) {
    const auto is_meant = [&](const std::string& other) {
      return of_classes ? is_class(other, name) : other == name;
    };
    if (std::any_of(known.begin(), known.end(), is_meant)) continue;
    refuse_recompute("`activation_checkpoint`: no layer is " +
                         std::string(of_classes ? "of class " : "named ") + "'" + name + "'",
                     known.empty() ? "name layers: their classes are not known before they are made"
                                   : suggest_name(name, known));
  }
}

bool is_chosen(const LayerInfo& layer, const ActivationCheckpoint& which) {
  const auto is_any_named = [&](const auto& is_meant) {
    return std::any_of(which.names.begin(), which.names.end(), is_meant);
  };
  switch (which.kind) {
    case ActivationCheckpoint::kNone:
      return false;
    case ActivationCheckpoint::kFull:
      return layer.role == LayerRole::kBlock;
    case ActivationCheckpoint::kClasses:
      return is_any_named([&](const auto& name) { return is_class(layer.class_name, name); });
    case ActivationCheckpoint::kLayers:
      return is_any_named([&](const auto& name) { return layer.name == name; });
  }
  return false;
}

ShapePolynomial bytes_of(const ValueSpec& value) {
  auto count = static_cast<double>(dtype_bytes(value.dtype));
  int rows = 0, lengths = 0;
  for (const std::int64_t size : value.sizes) {
    if (size == kMicrobatchRows)
      ++rows;
    else if (size == kMicrobatchLength)
      ++lengths;
    else
      count *= static_cast<double>(size);
  }
  if (rows == 0) return {.constant = count};
  if (lengths == 0) return {.per_row = count};
  return lengths == 1 ? ShapePolynomial{.per_token = count} : ShapePolynomial{.per_pair = count};
}

// With recomputation, a layer keeps only its inputs until its backward.
LayerCost cost_of_running_twice(const LayerInfo& layer,
                                const std::map<std::string, ShapePolynomial>& values) {
  LayerCost cost = layer.cost;
  if (cost.after_forward == ShapePolynomial()) return cost;
  if (layer.role == LayerRole::kHead) {
    for (const ValueSpec& value : layer.writes)
      cost.on_entry = ShapePolynomial::sum(cost.on_entry, bytes_of(value));
    return cost;
  }
  ShapePolynomial entering;
  const std::set<std::string> read(layer.reads.begin(), layer.reads.end());
  for (const std::string& name : read) {
    if (const auto value = values.find(name); value != values.end())
      entering = ShapePolynomial::sum(entering, value->second);
  }
  cost.after_forward = entering;
  // With recomputation, fused operators hold memory only during the layer's backward.
  cost.pooled_in_backward = ShapePolynomial::sum(cost.pooled_in_backward, cost.pooled_until_input);
  cost.pooled_after_input = ShapePolynomial::sum(cost.pooled_after_input, cost.pooled_until_weight);
  cost.pooled_until_input = cost.pooled_until_weight = {};
  // An embedding's peak is at the end of its backward, which at_end includes already.
  if (cost.at_end == ShapePolynomial())
    cost.on_entry = ShapePolynomial::sum(
        ShapePolynomial::sum(cost.on_entry, layer.cost.after_forward), entering, -1.0);
  return cost;
}

}  // namespace

void require_recomputable(const ModelSpec& model, const ActivationCheckpoint& which) {
  const bool names =
      which.kind == ActivationCheckpoint::kLayers || which.kind == ActivationCheckpoint::kClasses;
  if (names) require_names(model, which);
}

std::vector<std::string> set_recomputed(ModelSpec& model, Partition& partition,
                                        const ActivationCheckpoint& which) {
  if (which.kind == ActivationCheckpoint::kNone) return {};
  std::vector<std::string> notes;
  std::map<std::string, ShapePolynomial> values;
  for (StageContent& stage : partition.stages) {
    for (const int i : stage.layers) {
      LayerInfo& layer = model.layers[i];
      if (is_chosen(layer, which)) {
        stage.recomputed.push_back(i);
        layer.cost = cost_of_running_twice(layer, values);
      }
      for (const ValueSpec& value : layer.writes) values[value.name] = bytes_of(value);
    }
    if (stage.recomputed.empty()) {
      notes.push_back(
          formatted("`activation_checkpoint`: no layer of stage {} runs again", stage.stage));
    }
  }
  return notes;
}

Costs recomputation_costs(const ModelSpec& model, const Partition& partition,
                          const MicrobatchShape& microbatch) {
  Costs costs;
  const auto recomputes = [](const StageContent& stage) { return !stage.recomputed.empty(); };
  if (std::none_of(partition.stages.begin(), partition.stages.end(), recomputes)) return costs;
  for (const StageContent& stage : partition.stages) {
    double all = 0, again = 0;
    for (const int i : stage.layers) all += model.layers[i].cost.forward_flops.at(microbatch);
    for (const int i : stage.recomputed) {
      const LayerCost& cost = model.layers[i].cost;
      const bool has_backward =
          cost.input_flops.at(microbatch) + cost.weight_flops.at(microbatch) > 0;
      if (has_backward) again += cost.forward_flops.at(microbatch);
    }
    if (all <= 0) {  // unknown FLOPs: all layers count the same
      all = static_cast<double>(stage.layers.size());
      again = static_cast<double>(stage.recomputed.size());
    }
    StageCosts& of_stage = costs.per_stage.emplace_back(costs.uniform);
    const double more = of_stage.forward * again / all;
    of_stage.backward_input += more;
    of_stage.backward += more;
  }
  return costs;
}

}  // namespace sluice::detail
