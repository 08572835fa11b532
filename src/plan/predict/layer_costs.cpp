#include "plan/predict/layer_costs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/class_name.h"
#include "base/format.h"
#include "base/name_pattern.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "plan/partition/convention.h"
#include "plan/partition/layout_text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Weights, gradients and AdamW's two moments.
constexpr double kHeldCopies = 4;

constexpr std::array<std::pair<const char*, LayerRole>, 6> kClassRoles = {
    {{"embedding", LayerRole::kEmbedding},
     {"block", LayerRole::kBlock},
     {"norm", LayerRole::kNorm},
     {"head", LayerRole::kHead},
     {"other", LayerRole::kOther},
     {"mtp", LayerRole::kOther}}};

// The last parts of usual names of layers that are no blocks.
constexpr std::array<std::pair<const char*, const char*>, 12> kUsualNames = {
    {{"embed_tokens", "embedding"},
     {"tok_embeddings", "embedding"},
     {"embed_in", "embedding"},
     {"embedding", "embedding"},
     {"wte", "embedding"},
     {"norm", "norm"},
     {"ln_f", "norm"},
     {"final_layernorm", "norm"},
     {"lm_head", "head"},
     {"embed_out", "head"},
     {"output", "head"},
     {"output_layer", "head"}}};

bool has_star(const std::string& name) { return name.find('*') != std::string::npos; }

Error wrong_entry(const LayerCosts& costs, const std::string& key, const std::string& what,
                  const std::string& remedy) {
  return Error(ErrorKind::kInput,
               {.what = "'" + key + "' " + what, .where = costs.file, .remedy = remedy});
}

bool is_of_class(const LayerInfo& layer, const std::string& name) {
  if (is_class(layer.class_name, name)) return true;
  return std::ranges::any_of(kClassRoles, [&](const auto& row) {
    return name == row.first && layer.role == row.second &&
           (row.second != LayerRole::kOther || name != detail::kMtpClass);
  });
}

// Gives each layer one entry: first by full names, then by patterns in their order, then by
// classes. An entry with a count takes so many layers.
class EntryMatcher {
 public:
  EntryMatcher(const LayerCosts& costs, const ModelSpec& model)
      : costs_(costs), model_(model), of_layer_(model.layers.size(), nullptr) {
    const detail::LayerNames own = detail::hf_names(model);
    for (int i = 0; i < own.num_layers; ++i) {
      std::vector<std::string>& names = names_.emplace_back(own.names[i]);
      names.push_back(model.layers[i].name);
    }
    for (const char* head : {"lm_head", "output"}) {
      const detail::LayerNames titan = detail::titan_names(model, head);
      for (int i = 0; i < own.num_layers; ++i)
        names_[i].insert(names_[i].end(), titan.names[i].begin(), titan.names[i].end());
    }
  }

  std::vector<const LayerCosts::Entry*> match() {
    take([](const LayerCosts::Entry& each) { return !each.name.empty() && !has_star(each.name); });
    take([](const LayerCosts::Entry& each) { return has_star(each.name); });
    take([](const LayerCosts::Entry& each) { return each.name.empty(); });
    std::vector<std::string> lacking;
    for (std::size_t i = 0; i < of_layer_.size(); ++i)
      if (!of_layer_[i]) lacking.push_back(model_.layers[i].name);
    if (!lacking.empty()) {
      throw wrong_entry(
          costs_, "layers",
          "has no entry for '" + lacking.front() + "'" +
              (lacking.size() > 1 ? formatted(" and {} more", lacking.size() - 1) : std::string()),
          R"(add {"name": ")" + lacking.front() + R"(", "F": .., "B": ..})");
    }
    return of_layer_;
  }

 private:
  bool fits(const LayerCosts::Entry& entry, std::size_t layer) const {
    if (entry.name.empty()) return is_of_class(model_.layers[layer], entry.class_name);
    return std::ranges::any_of(
        names_[layer], [&](const std::string& name) { return matches_pattern(entry.name, name); });
  }

  template <typename IsTaken>
  void take(const IsTaken& is_taken) {
    for (const LayerCosts::Entry& entry : costs_.entries) {
      if (!is_taken(entry)) continue;
      int found = 0;
      for (std::size_t i = 0; i < of_layer_.size(); ++i) {
        if (of_layer_[i] || !fits(entry, i) || (entry.count && found == *entry.count)) continue;
        of_layer_[i] = &entry;
        ++found;
      }
      require_found(entry, found);
    }
  }

  void require_found(const LayerCosts::Entry& entry, int found) const {
    if (entry.count && found < *entry.count) {
      throw wrong_entry(costs_, entry.place + ".count",
                        formatted("is {}, but the model has only {} without another entry",
                                  *entry.count, counted(found, "such layer")),
                        "leave count out to mean all of them");
    }
    if (found > 0) return;
    std::vector<std::string> names;
    for (const auto& of_layer : names_) names.insert(names.end(), of_layer.begin(), of_layer.end());
    const bool is_name = !entry.name.empty();
    throw wrong_entry(costs_, entry.place + (is_name ? ".name" : ".class"),
                      "'" + (is_name ? entry.name : entry.class_name) +
                          "' matches no layer, or only layers that other entries describe",
                      is_name ? suggest_name(entry.name, names)
                              : "write embedding, block, norm, head, other, mtp or a class");
  }

  const LayerCosts& costs_;
  const ModelSpec& model_;
  std::vector<const LayerCosts::Entry*> of_layer_;
  std::vector<std::vector<std::string>> names_;
};

void set_kept(LayerInfo& layer, double bytes) {
  LayerCost memory;
  memory.forward_flops = layer.cost.forward_flops;
  memory.input_flops = layer.cost.input_flops;
  memory.weight_flops = layer.cost.weight_flops;
  memory.after_forward.constant = bytes;
  layer.cost = memory;
  layer.operators.reset();
  layer.mask.reset();
  layer.waiting_gradients = {};
}

void set_time(const LayerCosts::Entry& entry, LayerTime& time) {
  time.forward = entry.time.forward;
  time.backward_input = entry.time.backward_input;
  time.backward_weight = entry.time.backward_weight;
  time.backward = entry.time.backward;
  time.optimizer_step = entry.time.optimizer_step;
  if (entry.sent_bytes) time.output_bytes = *entry.sent_bytes;
}

LayerTimes empty_times(const LayerCosts& costs, LayerTimes times) {
  times.file = costs.file;
  times.latency = costs.latency;
  times.bandwidth = costs.bandwidth;
  times.elsewhere = true;
  return times;
}

std::vector<std::string> notes_of(const LayerCosts& costs, bool has_model) {
  std::vector<std::string> notes = {
      "the costs of layers in " + costs.file +
      " were measured elsewhere, so they are not compared with this run"};
  const auto any = [&](auto is) { return std::ranges::any_of(costs.entries, is); };
  if (any([](const LayerCosts::Entry& each) { return each.halves_backward; }))
    notes.emplace_back("some costs have B without I and W, so I and W are each half of B");
  if (has_model &&
      any([](const LayerCosts::Entry& each) { return each.parameter_bytes.has_value(); }))
    notes.emplace_back(
        "parameter_bytes of the costs are not used, because the model describes its parameters");
  return notes;
}

}  // namespace

namespace detail {

std::string usual_class(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const auto& [usual, of_class] : kUsualNames)
    if (last == usual) return of_class;
  return "block";
}

LayerRole role_of_class(std::string_view class_name) {
  for (const auto& [name, role] : kClassRoles)
    if (class_name == name) return role;
  return LayerRole::kBlock;
}

std::string LayerNumbers::next(const std::string& pattern, const std::string& place,
                               bool is_repeated) {
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) {
    if (!is_repeated) return pattern;
    throw Error(ErrorKind::kInput,
                {.what = "'" + place + ".count' needs a '*' in the name '" + pattern + "'",
                 .where = file_,
                 .remedy = "write the layer's number as *, as in model.layers.*"});
  }
  auto found = std::ranges::find(counts_, pattern, &std::pair<std::string, int>::first);
  if (found == counts_.end()) found = counts_.insert(found, {pattern, 0});
  std::string name = pattern;
  return name.replace(star, 1, std::to_string(found->second++));
}

}  // namespace detail

CostedModel with_layer_costs(const LayerCosts& costs, ModelSpec model,
                             const MicrobatchShape& microbatch, OptimizerKind optimizer) {
  const std::vector<const LayerCosts::Entry*> entries = EntryMatcher(costs, model).match();
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (entries[i]->kept_bytes) set_kept(model.layers[i], *entries[i]->kept_bytes);
  LayerTimes times = empty_times(costs, without_times(model, microbatch, optimizer));
  for (std::size_t i = 0; i < entries.size(); ++i) set_time(*entries[i], times.layers[i]);
  return {std::move(model), std::move(times), notes_of(costs, true)};
}

CostedModel model_of_layer_costs(const LayerCosts& costs) {
  CostedModel made = {
      .model = {}, .times = empty_times(costs, {}), .notes = notes_of(costs, false)};
  detail::LayerNumbers numbers(costs.file);
  std::vector<std::string> names;
  for (const LayerCosts::Entry& entry : costs.entries) {
    if (entry.name.empty())
      throw wrong_entry(costs, entry.place + ".name", "is missing",
                        "name the layer, because no model does");
    const int count = entry.count.value_or(1);
    for (int i = 0; i < count; ++i) {
      LayerInfo& layer = made.model.layers.emplace_back();
      layer.name = numbers.next(entry.name, entry.place, count > 1);
      layer.class_name =
          entry.class_name.empty() ? detail::usual_class(layer.name) : entry.class_name;
      layer.role = detail::role_of_class(layer.class_name);
      LayerTime& time = made.times.layers.emplace_back();
      time.name = layer.name;
      time.role = layer.role;
      set_time(entry, time);
      time.kept_bytes = entry.kept_bytes.value_or(0);
      time.held_bytes = kHeldCopies * entry.parameter_bytes.value_or(0);
      names.push_back(layer.name);
      if (names.size() > kMaxLayers)
        throw wrong_entry(costs, "layers", formatted("has more than {} layers", kMaxLayers),
                          "write fewer");
    }
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    throw wrong_entry(costs, "layers", "has '" + *twice + "' twice", "list every layer once");
  if (made.model.num_blocks() == 0)
    throw wrong_entry(costs, "layers", "has no decoder layer", R"(give one of "class": "block")");
  made.times.of.family = made.model.family;
  return made;
}

}  // namespace sluice
