// A model as a list of layers, for plans of models that have no config.json here:
//
//     {"hidden_size": 4096, "layers": [{"name": "embed", "class": "embedding", "params":
//     131072000},
//                                      {"name": "layers.*", "count": 32, "flops": 436207616,
//                                      "params": 218112000,
//                                       "kept_bytes": 278528}, {"name": "lm_head", "flops":
//                                       262144000}]}
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "family/decoder.h"
#include "family/planned.h"
#include "plan/partition/layout_text.h"
#include "plan/predict/layer_costs.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr double kMostSize = 1e30;

class LayerList {
 public:
  LayerList(const Json& document, const std::string& file, const Precision& precision)
      : document_(document), file_(file), precision_(precision), numbers_(file) {}

  ModelSpec read() {
    require_keys(document_, {"name", "hidden_size", "vocab_size", "layers"}, "");
    ModelSpec model;
    model.inputs = decoder_inputs();
    hidden_ = static_cast<std::int64_t>(
        whole(document_, "hidden_size", "", 1, static_cast<double>(kMaxDimension)));
    if (document_.contains("vocab_size")) {
      model.vocab_size = static_cast<std::int64_t>(
          whole(document_, "vocab_size", "", 1, static_cast<double>(kMaxDimension)));
    }
    const Json& layers = document_.at("layers");
    if (!layers.is_array() || layers.empty())
      fail("layers", "is not a list with one object per layer or group of equal layers");
    for (std::size_t i = 0; i < layers.list().size(); ++i)
      add(layers.list()[i], formatted("layers[{}]", i), model);
    require_names_once(model);
    if (model.num_blocks() == 0) fail("layers", "has no layer of the class 'block'");
    model.layers.front().reads = {"input_ids"};
    return model;
  }

  std::string name() const {
    const Json* name = document_.find("name");
    if (!name) return "list";
    if (!name->is_string() || name->text().empty()) fail("name", "is not a text");
    return name->text();
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& what,
                         const std::string& remedy = {}) const {
    throw Error(
        ErrorKind::kInput,
        {.what = (key.empty() ? "the list of layers" : "'" + key + "'") + " " + what,
         .where = file_,
         .remedy = remedy.empty() ? R"(write {"hidden_size": .., "layers": [{"name": "layers.*", )"
                                    R"("count": 32, "flops": .., "params": ..}, ..]})"
                                  : remedy});
  }

  static std::string inside(const std::string& at, const std::string& key) {
    return at.empty() ? key : at + "." + key;
  }

  void require_keys(const Json& object, const std::vector<std::string>& known,
                    const std::string& at) const {
    if (!object.is_object()) fail(at, "is not an object");
    for (const auto& [key, value] : object.members()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(inside(at, key), "is not a key of a list of layers", suggest_name(key, known));
    }
  }

  // Returns 0 if the key is absent and `least` is 0.
  double number(const Json& object, const std::string& key, const std::string& at, double least,
                double most) const {
    const Json* value = object.find(key);
    if (!value && least == 0) return 0;
    if (!value) fail(inside(at, key), "is missing");
    const double found =
        value->is_number() ? value->number() : std::numeric_limits<double>::quiet_NaN();
    if (!(found >= least && found <= most)) {
      fail(inside(at, key), "is not a number from " + shortest(least) + " to " + shortest(most),
           "write a number in this range");
    }
    return found;
  }

  double whole(const Json& object, const std::string& key, const std::string& at, double least,
               double most) const {
    const double found = number(object, key, at, least, most);
    if (found != std::floor(found)) fail(inside(at, key), "is not a whole number", "round it");
    return found;
  }

  std::string text(const Json& object, const std::string& key, const std::string& at) const {
    const Json* value = object.find(key);
    if (!value) return {};
    if (!value->is_string() || value->text().empty())
      fail(inside(at, key), "is not a text with a name");
    return value->text();
  }

  void add(const Json& object, const std::string& at, ModelSpec& model) {
    require_keys(
        object,
        {"name", "class", "count", "flops", "flops_per_pair", "params", "kept_bytes", "sent_bytes"},
        at);
    const std::string pattern = text(object, "name", at);
    if (pattern.empty()) fail(at + ".name", "is missing");
    const auto count =
        object.contains("count") ? static_cast<int>(whole(object, "count", at, 1, kMaxLayers)) : 1;
    if (std::ssize(model.layers) + count > kMaxLayers)
      fail("layers", formatted("has more than {} layers", kMaxLayers), "write fewer");
    const LayerInfo layer = layer_of(object, at);
    for (int i = 0; i < count; ++i) {
      LayerInfo& info = model.layers.emplace_back(layer);
      info.name = numbers_.next(pattern, at, count > 1);
      if (info.class_name.empty()) info.class_name = usual_class(info.name);
      set_role(info);
      if (!info.parameters.empty()) info.parameters.front().name = info.name + ".weight";
    }
  }

  LayerInfo layer_of(const Json& object, const std::string& at) const {
    LayerInfo layer = hidden_layer("", LayerRole::kOther, hidden_);
    layer.undivided = "models that are only planned have no tensor parallelism";
    layer.parameters_known = true;
    layer.class_name = text(object, "class", at);
    const double params = whole(object, "params", at, 0, kMaxParameters);
    if (params > 0) layer.parameters.emplace_back().shape = {static_cast<std::int64_t>(params)};
    const double flops = number(object, "flops", at, 0, kMostSize),
                 pairs = number(object, "flops_per_pair", at, 0, kMostSize);
    layer.cost.forward_flops = {.per_token = flops, .per_pair = pairs};
    layer.cost.input_flops = {.per_token = flops, .per_pair = 2 * pairs};
    if (params > 0) layer.cost.weight_flops = {.per_token = flops};
    layer.cost.after_forward = {.per_token = number(object, "kept_bytes", at, 0, kMostSize)};
    if (object.contains("sent_bytes")) {
      const double sent = number(object, "sent_bytes", at, 1, static_cast<double>(kMaxDimension));
      layer.writes.front().sizes.back() = static_cast<std::int64_t>(
          std::ceil(sent / static_cast<double>(precision_.parameter_bytes())));
    }
    return layer;
  }

  static void set_role(LayerInfo& layer) {
    layer.role = role_of_class(layer.class_name);
    if (layer.role == LayerRole::kEmbedding) layer.cost.input_flops = {};
    if (layer.role != LayerRole::kHead) return;
    layer.reads = {"hidden", "labels"};
    layer.writes = {{"loss", {}}};
  }

  void require_names_once(const ModelSpec& model) const {
    std::vector<std::string> names;
    for (const LayerInfo& layer : model.layers) names.push_back(layer.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) fail("layers", "has '" + *twice + "' twice", "name each layer once");
  }

  const Json& document_;
  const std::string& file_;
  const Precision& precision_;
  LayerNumbers numbers_;
  std::int64_t hidden_ = 0;
};

const PlannedFamily* family_named(const Json& type) {
  if (!type.is_string()) return nullptr;
  const auto found = std::ranges::find(planned_families(), type.text(), &PlannedFamily::name);
  return found == planned_families().end() ? nullptr : &*found;
}

const Json* nested_config(const Json& document) {
  const Json* nested = document.find("text_config");
  return nested && nested->is_object() ? nested : nullptr;
}

}  // namespace

bool is_layer_list(const Json& document) {
  return document.contains("layers") && !document.contains("model_type");
}

bool is_planned_model(const Json& document) {
  if (is_layer_list(document) || family_named(document.at("model_type"))) return true;
  const Json* nested = nested_config(document);
  return nested && family_named(nested->at("model_type"));
}

ModelSpec planned_model(const Json& document, const std::string& file_name,
                        const Precision& precision) {
  if (is_layer_list(document)) return listed_model(document, file_name, precision);
  const PlannedFamily* family = family_named(document.at("model_type"));
  const Json* nested = family ? nullptr : nested_config(document);
  if (nested) family = family_named(nested->at("model_type"));
  ModelSpec model = family->read(
      ConfigReader(nested ? *nested : document, file_name, nested ? "text_config." : ""),
      precision);
  model.family = family->name;
  return model;
}

ModelSpec listed_model(const Json& document, const std::string& file_name,
                       const Precision& precision) {
  LayerList list(document, file_name, precision);
  ModelSpec model = list.read();
  model.family = list.name();
  return model;
}

}  // namespace sluice::detail
