#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "plan/predict/costs.h"
#include "plan/predict/layer_times.h"
#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxTimesBytes = std::size_t{64} << 20;
constexpr const char* kVersionKey = "sluice_costs";
constexpr int kVersion = 1;
constexpr const char* kRemedy = "make the file with sluice plan CONFIG.toml --measure COSTS.json";

struct NumberOfLayer {
  const char* name;
  double LayerTime::*value;
  bool is_needed;
};
constexpr std::array<NumberOfLayer, 11> kNumbersOfLayer = {{
    {"F", &LayerTime::forward, true},
    {"I", &LayerTime::backward_input, true},
    {"W", &LayerTime::backward_weight, true},
    {"B", &LayerTime::backward, false},
    {"OPTIMIZER_STEP", &LayerTime::optimizer_step, false},
    {"CAST", &LayerTime::cast, false},
    {"kept_bytes", &LayerTime::kept_bytes, false},
    {"kept_after_input_bytes", &LayerTime::kept_after_input_bytes, false},
    {"held_bytes", &LayerTime::held_bytes, false},
    {"running_bytes", &LayerTime::running_bytes, false},
    {"output_bytes", &LayerTime::output_bytes, false},
}};

struct NumberOfAll {
  const char* name;
  double LayerTimes::*value;
};
constexpr std::array<NumberOfAll, 6> kNumbersOfAll = {{
    {"latency", &LayerTimes::latency},
    {"bandwidth", &LayerTimes::bandwidth},
    {"ACTION", &LayerTimes::action},
    {"REDUCE_LOSS", &LayerTimes::reduce_loss},
    {"REDUCE_NORM", &LayerTimes::reduce_norm},
    {"parallel_ranks", &LayerTimes::parallel_ranks},
}};

struct TextOfRun {
  const char* name;
  std::string TimedRun::*text;
};
constexpr std::array<TextOfRun, 9> kTextsOfRun = {{
    {"model", &TimedRun::model},
    {"family", &TimedRun::family},
    {"dtype", &TimedRun::dtype},
    {"mixed_precision", &TimedRun::mixed_precision},
    {"operators", &TimedRun::operators},
    {"optimizer", &TimedRun::optimizer},
    {"recomputed", &TimedRun::recomputed},
    {"transport", &TimedRun::transport},
    {"cpu", &TimedRun::cpu},
}};

constexpr std::array<std::pair<const char*, LayerRole>, 5> kRoles = {{
    {"embedding", LayerRole::kEmbedding},
    {"block", LayerRole::kBlock},
    {"norm", LayerRole::kNorm},
    {"head", LayerRole::kHead},
    {"other", LayerRole::kOther},
}};

class TimesFile {
 public:
  TimesFile(std::string_view text, std::string path)
      : path_(std::move(path)), document_(parse_strict_json(text, path_)) {}

  LayerTimes read() {
    if (!document_.is_object()) fail("", "is not an object", kRemedy);
    const Json& version = need(document_, kVersionKey, "");
    if (!(version == kVersion)) {
      fail(kVersionKey, formatted("is {}, not {}", version.dump(), kVersion),
           "measure the costs again with this program");
    }
    LayerTimes times;
    times.file = path_;
    std::vector<std::string> known = {kVersionKey, "unit", "of", "layers"};
    for (const NumberOfAll& number : kNumbersOfAll) {
      known.emplace_back(number.name);
      if (document_.contains(number.name))
        times.*number.value = read_number(document_.at(number.name), number.name);
    }
    require_known(document_, known, "");
    times.unit = text(need(document_, "unit", ""), "unit");
    if (times.unit != "s") fail("unit", "is '" + times.unit + "'", "give times in seconds: \"s\"");
    times.of = run(need(document_, "of", ""));
    const Json& layers = need(document_, "layers", "");
    if (!layers.is_array() || layers.empty())
      fail("layers", "is not a list with one object per layer", kRemedy);
    std::map<std::string, std::string> places;
    for (const Json& each : layers.list()) {
      const std::string at = formatted("layers[{}]", times.layers.size());
      times.layers.push_back(layer(each, at));
      const std::string& name = times.layers.back().name;
      const auto [first, is_new] = places.emplace(name, at);
      if (!is_new) {
        fail(at + ".name", "is '" + name + "', which is also the name of " + first->second,
             "list every layer of the model once, in its order, or " + std::string(kRemedy));
      }
    }
    return times;
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& what,
                         const std::string& remedy) const {
    throw Error(ErrorKind::kInput,
                {.what = field.empty() ? "the costs file " + what : "'" + field + "' " + what,
                 .where = path_,
                 .remedy = remedy});
  }

  const Json& need(const Json& object, const std::string& key, const std::string& at) const {
    if (!object.contains(key)) fail(inside(at, key), "is missing", kRemedy);
    return object.at(key);
  }

  static std::string inside(const std::string& at, const std::string& key) {
    return at.empty() ? key : at + "." + key;
  }

  void require_known(const Json& object, const std::vector<std::string>& known,
                     const std::string& at) const {
    if (!object.is_object()) fail(at, "is not an object", kRemedy);
    for (const auto& [key, value] : object.members()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(inside(at, key), "is not a key of measured costs", suggest_name(key, known));
    }
  }

  double read_number(const Json& value, const std::string& field) const {
    const double number = value.is_number() ? value.number() : -1.0;
    if (!(number >= 0.0)) fail(field, "is not a number of at least 0", "write 0 or more");
    if (number > detail::kMostCost) fail(field, "is " + shortest(number), detail::kMostRemedy);
    return number;
  }

  std::int64_t count(const Json& value, const std::string& field) const {
    if (!value.is_number_integer() || value.integer() < 1)
      fail(field, "is not a whole number of at least 1", "write 1 or more");
    return value.integer();
  }

  std::string text(const Json& value, const std::string& field) const {
    if (!value.is_string()) fail(field, "is not a string", kRemedy);
    return value.text();
  }

  TimedRun run(const Json& object) const {
    std::vector<std::string> known = {"microbatch_size", "seq_len", "threads_per_rank"};
    for (const TextOfRun& row : kTextsOfRun) known.emplace_back(row.name);
    require_known(object, known, "of");
    TimedRun run;
    for (const TextOfRun& row : kTextsOfRun)
      run.*row.text = text(need(object, row.name, "of"), inside("of", row.name));
    run.microbatch.rows = count(need(object, "microbatch_size", "of"), "of.microbatch_size");
    run.microbatch.length = count(need(object, "seq_len", "of"), "of.seq_len");
    run.threads_per_rank = count(need(object, "threads_per_rank", "of"), "of.threads_per_rank");
    return run;
  }

  LayerTime layer(const Json& object, const std::string& at) const {
    std::vector<std::string> known = {"name", "role"};
    for (const NumberOfLayer& number : kNumbersOfLayer) known.emplace_back(number.name);
    require_known(object, known, at);
    LayerTime layer;
    layer.name = text(need(object, "name", at), at + ".name");
    const std::string role = text(need(object, "role", at), at + ".role");
    const auto* found = std::find_if(kRoles.begin(), kRoles.end(),
                                     [&](const auto& row) { return role == row.first; });
    if (found == kRoles.end()) {
      fail(at + ".role", "is '" + role + "'",
           "write \"embedding\", \"block\", \"norm\", \"head\" or \"other\"");
    }
    layer.role = found->second;
    for (const NumberOfLayer& number : kNumbersOfLayer) {
      if (number.is_needed) need(object, number.name, at);
      if (object.contains(number.name))
        layer.*number.value = read_number(object.at(number.name), at + "." + number.name);
    }
    if (!object.contains("B")) layer.backward = layer.backward_input + layer.backward_weight;
    return layer;
  }

  std::string path_;
  Json document_;
};

}  // namespace

std::string layer_times_json(const LayerTimes& times) {
  Json document;
  document[kVersionKey] = kVersion;
  document["unit"] = times.unit;
  Json& of = document["of"];
  for (const TextOfRun& row : kTextsOfRun) of[row.name] = times.of.*row.text;
  of["microbatch_size"] = times.of.microbatch.rows;
  of["seq_len"] = times.of.microbatch.length;
  of["threads_per_rank"] = times.of.threads_per_rank;
  for (const NumberOfAll& number : kNumbersOfAll) document[number.name] = times.*number.value;
  Json layers = Json::array();
  for (const LayerTime& layer : times.layers) {
    Json row;
    row["name"] = layer.name;
    for (const auto& [name, role] : kRoles) {
      if (role == layer.role) row["role"] = name;
    }
    for (const NumberOfLayer& number : kNumbersOfLayer) row[number.name] = layer.*number.value;
    layers.push_back(std::move(row));
  }
  document["layers"] = std::move(layers);
  return document.dump(1) + "\n";
}

LayerTimes parse_layer_times(std::string_view text, const std::string& file_name) {
  return TimesFile(text, file_name).read();
}

std::shared_ptr<const LayerTimes> read_layer_times(const std::string& path) {
  return std::make_shared<const LayerTimes>(
      parse_layer_times(read_text_or_pipe(path, kMaxTimesBytes, ErrorKind::kInput), path));
}

bool holds_layer_times(std::string_view text) {
  const std::optional<Json> document = parse_json(text);
  return document && (document->contains(kVersionKey) || document->contains("layers"));
}

bool is_measured_here(std::string_view text) {
  const std::optional<Json> document = parse_json(text);
  return document && (document->contains(kVersionKey) || document->contains("of"));
}

}  // namespace sluice
