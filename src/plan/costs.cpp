// Costs from text and from files (docs/simulate.md).
#include "plan/costs.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/strict_json.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
const std::vector<std::string> kActionNames = {"F", "I", "W", "B"};

// F, I, W and B as far as they are given.
struct GivenCosts {
  std::optional<double> forward, backward_input, backward_weight, backward;

  std::optional<double>* find(std::string_view name) {
    if (name == "F") return &forward;
    if (name == "I") return &backward_input;
    if (name == "W") return &backward_weight;
    if (name == "B") return &backward;
    return nullptr;
  }

  // What is not given is as in `otherwise`; B is I + W when one of these is given and B is not.
  StageCosts over(const StageCosts& otherwise) const {
    StageCosts costs = otherwise;
    costs.forward = forward.value_or(otherwise.forward);
    costs.backward_input = backward_input.value_or(otherwise.backward_input);
    costs.backward_weight = backward_weight.value_or(otherwise.backward_weight);
    if (backward)
      costs.backward = *backward;
    else if (backward_input || backward_weight) {
      costs.backward = costs.backward_input + costs.backward_weight;
    }
    return costs;
  }
};

std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0.0) {
    return std::nullopt;
  }
  return value;
}

class CostsFile {
 public:
  CostsFile(std::string_view text, const std::string& path)
      : path_(path), document_(parse_strict_json(text, path)) {}

  Costs read() const {
    Costs costs;
    if (document_.is_array()) {
      costs.per_stage = stages(document_, "", costs.uniform);
      return costs;
    }
    if (!document_.is_object()) fail("", "must be an object, or a list with one object per stage");
    static const std::vector<std::string> kKeys = {
        "F",      "I",         "W", "B", "comm", "latency", "bandwidth", "message_bytes",
        "stages", "rank_speed"};
    for (const auto& [key, value] : document_.items()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
        fail(key, "is not a key of costs", suggest_name(key, kKeys));
      }
    }
    if (document_.contains("comm") && document_.contains("latency")) {
      fail("comm", "is another name of 'latency'; give one of them");
    }
    costs.uniform = stage(document_, "", costs.uniform, /*other_keys=*/true);
    for (const char* key : {"comm", "latency"}) {
      if (document_.contains(key)) costs.latency = number(document_[key], key);
    }
    if (document_.contains("bandwidth")) {
      costs.bandwidth = number(document_["bandwidth"], "bandwidth");
    }
    if (document_.contains("message_bytes")) costs.message_bytes = numbers("message_bytes");
    if (document_.contains("rank_speed")) costs.rank_speed = numbers("rank_speed");
    if (document_.contains("stages")) {
      costs.per_stage = stages(document_["stages"], "stages", costs.uniform);
    }
    return costs;
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& what,
                         const std::string& remedy = {}) const {
    throw Error(ErrorKind::kInput, field.empty() ? "the costs: " + what : "'" + field + "' " + what,
                path_, remedy);
  }

  double number(const Json& value, const std::string& field) const {
    const double result = value.is_number() ? value.get<double>() : -1.0;
    if (!(result >= 0.0) || !std::isfinite(result)) fail(field, "must be a number of at least 0");
    return result;
  }

  std::vector<double> numbers(const char* field) const {
    const Json& list = document_[field];
    if (!list.is_array()) fail(field, "must be a list of numbers");
    std::vector<double> result;
    for (const Json& value : list) {
      result.push_back(
          number(value, std::string(field) + "[" + std::to_string(result.size()) + "]"));
    }
    return result;
  }

  StageCosts stage(const Json& object, const std::string& field, const StageCosts& otherwise,
                   bool other_keys) const {
    if (!object.is_object()) fail(field, "must be an object with F, I, W, B");
    GivenCosts given;
    for (const auto& [key, value] : object.items()) {
      std::optional<double>* cost = given.find(key);
      const std::string where = field.empty() ? key : field + "." + key;
      if (cost)
        *cost = number(value, where);
      else if (!other_keys)
        fail(where, "is not a cost", suggest_name(key, kActionNames));
    }
    return given.over(otherwise);
  }

  std::vector<StageCosts> stages(const Json& list, const std::string& field,
                                 const StageCosts& otherwise) const {
    if (!list.is_array() || list.empty()) fail(field, "must be a list with one object per stage");
    std::vector<StageCosts> result;
    for (const Json& each : list) {
      const std::string where = field + "[" + std::to_string(result.size()) + "]";
      result.push_back(stage(each, where, otherwise, /*other_keys=*/false));
    }
    return result;
  }

  std::string path_;
  Json document_;
};

}  // namespace

Costs parse_costs(std::string_view text) {
  static const std::vector<std::string> kNames = {"F", "I", "W", "B", "comm"};
  Costs costs;
  GivenCosts given;
  std::optional<double> latency;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name(trim(std::string_view(part).substr(0, equals)));
    std::optional<double>* cost = name == "comm" ? &latency : given.find(name);
    if (!cost) {
      throw Error(ErrorKind::kUsage, "unknown cost '" + name + "'", "--costs",
                  suggest_name(name, kNames));
    }
    const std::optional<double> value =
        equals == std::string::npos ? std::nullopt
                                    : parse_number(trim(std::string_view(part).substr(equals + 1)));
    if (!value || *cost) {
      throw Error(ErrorKind::kUsage,
                  *cost ? "cost '" + name + "' is given twice"
                        : "'" + part + "' is not a cost of at least 0",
                  "--costs", "write F=1,I=1,W=1,B=2,comm=0 or name a JSON file");
    }
    *cost = value;
  }
  costs.uniform = given.over(costs.uniform);
  costs.latency = latency.value_or(0.0);
  return costs;
}

Costs parse_costs_json(std::string_view text, const std::string& file_name) {
  return CostsFile(text, file_name).read();
}

Costs read_costs(const std::string& path) {
  return parse_costs_json(read_text_file(path, kMaxFileBytes), path);
}

namespace detail {
namespace {

void require_number(double value, const char* what) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw Error(ErrorKind::kUsage, std::string(what) + " must be a number of at least 0");
}

void require_size(const std::vector<double>& list, int size, const char* what) {
  if (list.empty() || list.size() == static_cast<std::size_t>(size)) return;
  throw Error(ErrorKind::kUsage,
              std::to_string(list.size()) + " values of " + what + " for " + std::to_string(size));
}

}  // namespace

void require_fitting(const Costs& costs, const Program& program) {
  if (!costs.per_stage.empty() &&
      costs.per_stage.size() != static_cast<std::size_t>(program.num_stages)) {
    throw Error(ErrorKind::kUsage, "costs of " + std::to_string(costs.per_stage.size()) +
                                       " stages for a program with " +
                                       std::to_string(program.num_stages));
  }
  const auto check_stage = [](const StageCosts& stage) {
    for (const double cost :
         {stage.forward, stage.backward_input, stage.backward_weight, stage.backward}) {
      require_number(cost, "a cost");
    }
  };
  check_stage(costs.uniform);
  for (const StageCosts& stage : costs.per_stage) check_stage(stage);
  require_number(costs.latency, "latency");
  require_number(costs.bandwidth, "bandwidth");
  require_size(costs.message_bytes, program.num_stages - 1, "message_bytes (one per cut)");
  require_size(costs.rank_speed, program.num_ranks, "rank_speed (one per rank)");
  for (const double bytes : costs.message_bytes) require_number(bytes, "message_bytes");
  for (const double speed : costs.rank_speed) {
    require_number(speed, "rank_speed");
    if (speed == 0.0) throw Error(ErrorKind::kUsage, "rank_speed must be above 0");
  }
}

}  // namespace detail
}  // namespace sluice
