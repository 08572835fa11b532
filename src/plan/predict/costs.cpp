#include "plan/predict/costs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr const char* kFileRemedy = "write [{\"F\": 1, \"B\": 2}, ...]: one object per stage";
constexpr const char* kTextRemedy = "write F=1,I=1,W=1,B=2,comm=0 or name a JSON file";

// `is_size`: a number of bytes, allowed only in files.
struct StageCostName {
  const char* name;
  double StageCosts::*cost;
  bool is_size = false;
};
constexpr std::array<StageCostName, 12> kStageCosts = {
    {{"F", &StageCosts::forward},
     {"I", &StageCosts::backward_input},
     {"W", &StageCosts::backward_weight},
     {"B", &StageCosts::backward},
     {"UNSHARD", &StageCosts::unshard},
     {"REDUCE_GRAD", &StageCosts::reduce_gradients},
     {"PARTIAL_NORM", &StageCosts::partial_norm},
     {"OPTIMIZER_STEP", &StageCosts::optimizer_step},
     {"kept_bytes", &StageCosts::kept_bytes, true},
     {"kept_after_input_bytes", &StageCosts::kept_after_input_bytes, true},
     {"held_bytes", &StageCosts::held_bytes, true},
     {"running_bytes", &StageCosts::running_bytes, true}}};

std::vector<std::string> stage_cost_names(bool with_sizes) {
  std::vector<std::string> names;
  for (const StageCostName& cost : kStageCosts) {
    if (with_sizes || !cost.is_size) names.emplace_back(cost.name);
  }
  return names;
}

struct CostName {
  const char* name;
  double Costs::*cost;
};
constexpr std::array<CostName, 6> kCollectives = {{{"REDUCE_TIED", &Costs::reduce_tied},
                                                   {"REDUCE_LOSS", &Costs::reduce_loss},
                                                   {"GATHER_OUTPUTS", &Costs::gather_outputs},
                                                   {"REDUCE_NORM", &Costs::reduce_norm},
                                                   {"ACTION", &Costs::action},
                                                   {"parallel_ranks", &Costs::parallel_ranks}}};

class GivenCosts {
 public:
  std::optional<double>* find(std::string_view name, bool with_sizes) {
    for (std::size_t i = 0; i < kStageCosts.size(); ++i) {
      if (name == kStageCosts[i].name && (with_sizes || !kStageCosts[i].is_size)) return &given_[i];
    }
    return nullptr;
  }

  // Takes missing costs from `otherwise`. If I or W is set without B, B is I + W.
  StageCosts over(const StageCosts& otherwise) const {
    StageCosts costs = otherwise;
    bool has_backward = false, has_part = false;
    for (std::size_t i = 0; i < kStageCosts.size(); ++i) {
      if (!given_[i]) continue;
      const auto cost = kStageCosts[i].cost;
      costs.*cost = *given_[i];
      has_backward |= cost == &StageCosts::backward;
      has_part |= cost == &StageCosts::backward_input || cost == &StageCosts::backward_weight;
    }
    if (has_part && !has_backward) costs.backward = costs.backward_input + costs.backward_weight;
    return costs;
  }

 private:
  std::array<std::optional<double>, kStageCosts.size()> given_;
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
    costs.file = path_;
    if (document_.is_array()) {
      costs.per_stage = stages(document_, "", costs.uniform);
      return costs;
    }
    if (!document_.is_object()) fail("", "is neither an object nor a list", kFileRemedy);
    std::vector<std::string> keys = stage_cost_names(/*with_sizes=*/true);
    for (const CostName& collective : kCollectives) keys.emplace_back(collective.name);
    for (const char* key :
         {"comm", "latency", "bandwidth", "message_bytes", "stages", "rank_speed"})
      keys.emplace_back(key);
    for (const auto& [key, value] : document_.members()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        fail(key, "is not a key of costs", suggest_name(key, keys));
      }
    }
    if (document_.contains("comm") && document_.contains("latency")) {
      fail("comm", "is another name of 'latency'", "give one of them");
    }
    costs.uniform = stage(document_, "", costs.uniform, /*other_keys=*/true);
    for (const char* key : {"comm", "latency"}) {
      if (document_.contains(key)) costs.latency = number(document_.at(key), key);
    }
    for (const auto& [key, cost] : kCollectives) {
      if (document_.contains(key)) costs.*cost = number(document_.at(key), key);
    }
    if (document_.contains("bandwidth")) {
      costs.bandwidth = number(document_.at("bandwidth"), "bandwidth");
    }
    if (document_.contains("message_bytes")) costs.message_bytes = numbers("message_bytes");
    if (document_.contains("rank_speed")) costs.rank_speed = numbers("rank_speed");
    if (document_.contains("stages")) {
      costs.per_stage = stages(document_.at("stages"), "stages", costs.uniform);
    }
    return costs;
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& what,
                         const std::string& remedy = {}) const {
    throw Error(ErrorKind::kInput,
                {.what = field.empty() ? "the costs file " + what : "'" + field + "' " + what,
                 .where = path_,
                 .remedy = remedy});
  }

  double number(const Json& value, const std::string& field) const {
    const double result = value.is_number() ? value.number() : -1.0;
    if (!(result >= 0.0)) fail(field, "is not a number of at least 0", "write 0 or more");
    if (result > detail::kMostCost) fail(field, "is " + shortest(result), detail::kMostRemedy);
    return result;
  }

  std::vector<double> numbers(const char* field) const {
    const Json& list = document_.at(field);
    if (!list.is_array()) fail(field, "is not a list", "write a list of numbers");
    std::vector<double> result;
    for (const Json& value : list.list()) {
      result.push_back(number(value, formatted("{}[{}]", field, result.size())));
    }
    return result;
  }

  StageCosts stage(const Json& object, const std::string& field, const StageCosts& otherwise,
                   bool other_keys) const {
    if (!object.is_object()) fail(field, "is not an object", "write {\"F\": 1, \"B\": 2}");
    GivenCosts given;
    for (const auto& [key, value] : object.members()) {
      std::optional<double>* cost = given.find(key, /*with_sizes=*/true);
      const std::string where = field.empty() ? key : field + "." + key;
      if (cost)
        *cost = number(value, where);
      else if (!other_keys)
        fail(where, "is not a cost", suggest_name(key, stage_cost_names(/*with_sizes=*/true)));
    }
    return given.over(otherwise);
  }

  std::vector<StageCosts> stages(const Json& list, const std::string& field,
                                 const StageCosts& otherwise) const {
    if (!list.is_array() || list.empty()) {
      fail(field, "is not a list with one object per stage", kFileRemedy);
    }
    std::vector<StageCosts> result;
    for (const Json& each : list.list()) {
      const std::string where = formatted("{}[{}]", field, result.size());
      result.push_back(stage(each, where, otherwise, /*other_keys=*/false));
    }
    return result;
  }

  std::string path_;
  Json document_;
};

}  // namespace

Costs parse_costs(std::string_view text) {
  Costs costs;
  GivenCosts given;
  std::optional<double> latency;
  std::array<std::optional<double>, kCollectives.size()> collectives;
  const auto find = [&](const std::string& name) -> std::optional<double>* {
    if (name == "comm") return &latency;
    for (std::size_t i = 0; i < kCollectives.size(); ++i) {
      if (name == kCollectives[i].name) return &collectives[i];
    }
    return given.find(name, /*with_sizes=*/false);
  };
  std::vector<std::string> names = stage_cost_names(/*with_sizes=*/false);
  names.emplace_back("comm");
  for (const CostName& collective : kCollectives) names.emplace_back(collective.name);
  if (trim(text).empty()) {
    throw Error(ErrorKind::kUsage,
                {.what = "no costs are given", .where = "`costs`", .remedy = kTextRemedy});
  }
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name(trim(std::string_view(part).substr(0, equals)));
    std::optional<double>* cost = find(name);
    if (trim(part).empty()) {
      throw Error(ErrorKind::kUsage, {.what = "a cost is missing between the commas",
                                      .where = "`costs`",
                                      .remedy = kTextRemedy});
    }
    if (!cost) {
      throw Error(ErrorKind::kUsage, {.what = "unknown cost '" + name + "'",
                                      .where = "`costs`",
                                      .remedy = suggest_name(name, names)});
    }
    const std::optional<double> value =
        equals == std::string::npos ? std::nullopt
                                    : parse_number(trim(std::string_view(part).substr(equals + 1)));
    if (!value || *cost) {
      throw Error(ErrorKind::kUsage, {.what = *cost ? "cost '" + name + "' is given twice"
                                                    : "'" + part + "' is not a cost of at least 0",
                                      .where = "`costs`",
                                      .remedy = kTextRemedy});
    }
    *cost = value;
  }
  costs.uniform = given.over(costs.uniform);
  costs.latency = latency.value_or(0.0);
  for (std::size_t i = 0; i < kCollectives.size(); ++i) {
    costs.*kCollectives[i].cost = collectives[i].value_or(0.0);
  }
  return costs;
}

Costs parse_costs_json(std::string_view text, const std::string& file_name) {
  return CostsFile(text, file_name).read();
}

Costs read_costs(const std::string& path) {
  return parse_costs_json(read_text_or_pipe(path, kMaxFileBytes, ErrorKind::kInput), path);
}

Costs add_unsplit_costs(Costs costs, int num_stages, const std::vector<int>& stages) {
  if (costs.per_stage.empty())
    costs.per_stage.assign(static_cast<std::size_t>(num_stages), costs.uniform);
  for (int stage : stages) {
    StageCosts& cost = costs.per_stage.at(stage);
    cost.backward_input = cost.backward;
    cost.backward_weight = 0;
  }
  return costs;
}

namespace detail {
namespace {

class FittingCheck {
 public:
  FittingCheck(const Costs& costs, const Program& program) : costs_(costs), program_(program) {}

  void run() const {
    require_size("stages", costs_.per_stage.size(), program_.num_stages(), "stages");
    require_size("message_bytes", costs_.message_bytes.size(), program_.flow.num_cuts(),
                 "cuts between stages");
    require_size("rank_speed", costs_.rank_speed.size(), program_.num_ranks(), "ranks");
    check_stage(costs_.uniform);
    for (const StageCosts& stage : costs_.per_stage) check_stage(stage);
    for (const auto& [name, cost] : kCollectives) require_number(costs_.*cost, name);
    require_number(costs_.latency, "latency");
    require_number(costs_.bandwidth, "bandwidth");
    for (const double bytes : costs_.message_bytes) require_number(bytes, "message_bytes");
    for (const double speed : costs_.rank_speed) {
      require_number(speed, "rank_speed");
      if (speed == 0.0) fail("a rank_speed is 0", "write numbers above 0; 1 is the usual speed");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
    throw wrong_costs(costs_, what, remedy);
  }

  void require_number(double value, const char* what) const {
    if (std::isfinite(value) && value >= 0.0) return;
    fail(std::string(what) + " is " + shortest(value), "give a finite number of at least 0");
  }

  void check_stage(const StageCosts& stage) const {
    for (const StageCostName& each : kStageCosts)
      require_number(stage.*each.cost, each.is_size ? each.name : "a cost");
  }

  void require_size(const std::string& field, std::size_t size, int wanted,
                    const std::string& of_what) const {
    if (size == 0 || size == static_cast<std::size_t>(wanted)) return;
    fail(formatted("'{}' has {}{} for {} {}", field, size, size == 1 ? " entry" : " entries",
                   wanted, of_what),
         formatted("give {}, or leave '{}' out", wanted, field));
  }

  const Costs& costs_;
  const Program& program_;
};

}  // namespace

Error wrong_costs(const Costs& costs, const std::string& what, const std::string& remedy) {
  const bool from_file = !costs.file.empty();
  return Error(from_file ? ErrorKind::kInput : ErrorKind::kUsage,
               {.what = what, .where = costs.file, .remedy = remedy});
}

void require_fitting(const Costs& costs, const Program& program) {
  FittingCheck(costs, program).run();
}

}  // namespace detail
}  // namespace sluice
