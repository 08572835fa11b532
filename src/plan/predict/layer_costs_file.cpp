#include <algorithm>
#include <array>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "plan/predict/costs.h"
#include "plan/predict/layer_costs.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxCostsBytes = std::size_t{64} << 20;
constexpr const char* kExample =
    R"(write {"layers": [{"name": "model.layers.*", "F": 0.01, "I": 0.01, "W": 0.01}, ..]})";

struct CostKey {
  const char* name;
  double LayerTime::*value;
};
constexpr std::array<CostKey, 5> kTimeKeys = {{{"F", &LayerTime::forward},
                                               {"I", &LayerTime::backward_input},
                                               {"W", &LayerTime::backward_weight},
                                               {"B", &LayerTime::backward},
                                               {"OPTIMIZER_STEP", &LayerTime::optimizer_step}}};

struct SizeKey {
  const char* name;
  std::optional<double> LayerCosts::Entry::*value;
};
constexpr std::array<SizeKey, 3> kSizeKeys = {
    {{"kept_bytes", &LayerCosts::Entry::kept_bytes},
     {"parameter_bytes", &LayerCosts::Entry::parameter_bytes},
     {"sent_bytes", &LayerCosts::Entry::sent_bytes}}};

constexpr std::array<std::pair<const char*, double>, 3> kUnits = {
    {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}}};

class LayerCostsFile {
 public:
  LayerCostsFile(std::string_view text, std::string path)
      : path_(std::move(path)), document_(parse_strict_json(text, path_)) {}

  LayerCosts read() {
    if (!document_.is_object()) fail("", "is not an object", kExample);
    require_known(document_, {"unit", "latency", "bandwidth", "layers"}, "");
    if (const Json* unit = document_.find("unit")) set_unit(*unit);
    LayerCosts costs;
    costs.file = path_;
    if (const Json* latency = document_.find("latency"))
      costs.latency = seconds_ * number(*latency, "latency");
    if (const Json* bandwidth = document_.find("bandwidth"))
      costs.bandwidth = number(*bandwidth, "bandwidth") / seconds_;
    const Json* layers = document_.find("layers");
    if (!layers) fail("layers", "is missing", kExample);
    if (!layers->is_array() || layers->empty())
      fail("layers", "is not a list with one object per layer or kind of layer", kExample);
    for (const Json& each : layers->list())
      costs.entries.push_back(entry(each, formatted("layers[{}]", costs.entries.size())));
    return costs;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& what,
                         const std::string& remedy) const {
    throw Error(ErrorKind::kInput,
                {.what = key.empty() ? "the file of layer costs " + what : "'" + key + "' " + what,
                 .where = path_,
                 .remedy = remedy});
  }

  void require_known(const Json& object, const std::vector<std::string>& known,
                     const std::string& at) const {
    if (!object.is_object()) fail(at, "is not an object", kExample);
    for (const auto& [key, value] : object.members()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        fail(at.empty() ? key : at + "." + key, "is not a key of layer costs",
             suggest_name(key, known));
      }
    }
  }

  void set_unit(const Json& unit) {
    for (const auto& [name, seconds] : kUnits)
      if (unit == name) seconds_ = seconds;
    if (std::ranges::none_of(kUnits, [&](const auto& each) { return unit == each.first; }))
      fail("unit", "is " + unit.shown(), R"(write "s", "ms" or "us")");
  }

  double number(const Json& value, const std::string& key) const {
    const double number = value.is_number() ? value.number() : -1.0;
    if (!(number >= 0.0)) fail(key, "is not a number of at least 0", "write 0 or more");
    if (number > detail::kMostCost) fail(key, "is " + shortest(number), detail::kMostRemedy);
    return number;
  }

  std::string text(const Json& object, const char* key, const std::string& at) const {
    const Json* value = object.find(key);
    if (!value) return {};
    if (!value->is_string() || value->text().empty())
      fail(at + "." + key, "is not a text with a name", R"(write a name, such as "lm_head")");
    return value->text();
  }

  LayerCosts::Entry entry(const Json& object, const std::string& at) const {
    std::vector<std::string> known = {"name", "class", "count"};
    for (const CostKey& key : kTimeKeys) known.emplace_back(key.name);
    for (const SizeKey& key : kSizeKeys) known.emplace_back(key.name);
    require_known(object, known, at);
    LayerCosts::Entry entry;
    entry.place = at;
    entry.name = text(object, "name", at);
    entry.class_name = text(object, "class", at);
    if (entry.name.empty() && entry.class_name.empty())
      fail(at, "has neither 'name' nor 'class'", kExample);
    if (const Json* count = object.find("count")) {
      if (!count->is_number_integer() || count->integer() < 1 || count->integer() > kMaxLayers)
        fail(at + ".count", "is not a whole number from 1 to " + std::to_string(kMaxLayers),
             "write how many layers these are");
      entry.count = static_cast<int>(count->integer());
    }
    for (const CostKey& key : kTimeKeys) {
      if (const Json* value = object.find(key.name))
        entry.time.*key.value = seconds_ * number(*value, at + "." + key.name);
    }
    for (const SizeKey& key : kSizeKeys) {
      if (const Json* value = object.find(key.name))
        entry.*key.value = number(*value, at + "." + key.name);
    }
    set_backward(object, at, entry);
    return entry;
  }

  // Without I and W, each of them gets half of B.
  void set_backward(const Json& object, const std::string& at, LayerCosts::Entry& entry) const {
    if (!object.contains("F")) fail(at + ".F", "is missing", "give the time of the forward");
    LayerTime& time = entry.time;
    if (object.contains("I") || object.contains("W")) {
      if (!object.contains("B")) time.backward = time.backward_input + time.backward_weight;
      return;
    }
    if (!object.contains("B"))
      fail(at + ".B", "is missing", "give B, the time of the backward, or its parts I and W");
    time.backward_input = time.backward_weight = time.backward / 2;
    entry.halves_backward = true;
  }

  std::string path_;
  Json document_;
  double seconds_ = 1.0;
};

}  // namespace

LayerCosts parse_layer_costs(std::string_view text, const std::string& file_name) {
  return LayerCostsFile(text, file_name).read();
}

LayerCosts read_layer_costs(const std::string& path) {
  return parse_layer_costs(read_text_or_pipe(path, kMaxCostsBytes, ErrorKind::kInput), path);
}

}  // namespace sluice
