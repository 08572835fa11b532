#include "config/key_row.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace sluice::detail {
namespace {

Row mixed_key(const char* section, const char* name, std::vector<Kind> kinds,
              Value (*get)(const RunConfig&), void (*set)(RunConfig&, const Value&)) {
  Row row;
  row.section = section;
  row.name = name;
  row.kinds = std::move(kinds);
  row.get = get;
  row.set = set;
  return row;
}

}  // namespace

Row activation_checkpoint_key() {
  return mixed_key(
      "training", "activation_checkpoint", {Kind::kString, Kind::kStrings},
      [](const RunConfig& config) -> Value {
        const std::vector<std::string>& names = config.training.activation_checkpoint;
        if (names.empty()) return std::string("none");
        if (names == std::vector<std::string>{"*"}) return std::string("full");
        return names;
      },
      [](RunConfig& config, const Value& value) {
        std::vector<std::string>& names = config.training.activation_checkpoint;
        if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
          names = *list;
        } else {
          names.clear();
          if (std::get<std::string>(value) == "full") names.push_back("*");
        }
      });
}

Row stage_to_rank_key() {
  return mixed_key(
      "parallelism", "stage_to_rank", {Kind::kString, Kind::kIntegers},
      [](const RunConfig& config) -> Value {
        if (!config.parallelism.stage_to_rank_name.empty()) {
          return config.parallelism.stage_to_rank_name;
        }
        const std::vector<int>& ranks = config.parallelism.stage_to_rank;
        return std::vector<std::int64_t>(ranks.begin(), ranks.end());
      },
      [](RunConfig& config, const Value& value) {
        ParallelismOptions& options = config.parallelism;
        options.stage_to_rank.clear();
        options.stage_to_rank_name.clear();
        if (const auto* name = std::get_if<std::string>(&value)) {
          options.stage_to_rank_name = *name;
          return;
        }
        for (const std::int64_t rank : std::get<std::vector<std::int64_t>>(value)) {
          options.stage_to_rank.push_back(static_cast<int>(rank));
        }
      });
}

Row scale_grads_key() {
  return mixed_key(
      "parallelism", "scale_grads", {Kind::kString, Kind::kNumber, Kind::kBool},
      [](const RunConfig& config) -> Value {
        if (config.parallelism.scale_grads == "divisor") {
          return config.parallelism.scale_grads_divisor;
        }
        return config.parallelism.scale_grads;
      },
      [](RunConfig& config, const Value& value) {
        ParallelismOptions& options = config.parallelism;
        options.scale_grads_divisor = 0.0;
        if (const auto* word = std::get_if<std::string>(&value)) {
          options.scale_grads = *word;
        } else if (const auto* divisor = std::get_if<double>(&value)) {
          options.scale_grads = "divisor";
          options.scale_grads_divisor = *divisor;
        } else {  // torch's flag
          options.scale_grads = std::get<bool>(value) ? "microbatches" : "none";
        }
      });
}

Row resume_key() {
  return mixed_key(
      "checkpoint", "resume", {Kind::kString, Kind::kInteger},
      [](const RunConfig& config) -> Value {
        const std::string& resume = config.checkpoint.resume;
        std::int64_t step = 0;
        const char* const end = resume.data() + resume.size();
        const auto [rest, error] = std::from_chars(resume.data(), end, step);
        if (error == std::errc() && rest == end) return step;
        return resume;
      },
      [](RunConfig& config, const Value& value) {
        const auto* step = std::get_if<std::int64_t>(&value);
        config.checkpoint.resume = step ? std::to_string(*step) : std::get<std::string>(value);
      });
}

bool contains(const Range& range, double value) {
  return std::isfinite(value) && (range.above_min ? value > range.min : value >= range.min) &&
         (range.below_max ? value < range.max : value <= range.max);
}

std::string to_text(const Range& range) {
  const auto number = [](double value) {
    return value == std::floor(value) ? fixed(value, 0) : shortest(value);
  };
  const bool bottom = std::isfinite(range.min), top = std::isfinite(range.max);
  const std::string low = std::string(range.above_min ? "above " : "at least ") + number(range.min);
  const std::string high = std::string(range.below_max ? "below " : "at most ") + number(range.max);
  if (bottom && top && !range.above_min && !range.below_max) {
    return number(range.min) + " to " + number(range.max);
  }
  if (bottom && top) return low + " and " + high;
  return bottom ? low : top ? high : std::string();
}

std::string Key::variable() const {
  std::string name_upper = "SLUICE_" + section + "_" + name;
  std::transform(name_upper.begin(), name_upper.end(), name_upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name_upper;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& row : key_table()) {
    if (names.empty() || names.back() != row.section) names.push_back(row.section);
  }
  return names;
}

}  // namespace sluice::detail
