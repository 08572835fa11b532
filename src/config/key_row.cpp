#include "config/key_row.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/format.h"
#include "base/text.h"
#include "config/memory_size.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/partition.h"

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

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

Error not_an_interval(const std::string& key, const std::string& text) {
  return Error(ErrorKind::kUsage,
               {.what = formatted("{}: '{}' is neither steps nor epochs", key, text),
                .remedy = formatted("write {} = 100 for steps, or {} = \"0.5 epochs\"", key, key)});
}

Value shown_interval(const Interval& interval) {
  if (interval.epochs == 0) return interval.steps;
  return shortest(interval.epochs) + (interval.epochs == 1 ? " epoch" : " epochs");
}

Interval interval_of(const std::string& key, const Value& value) {
  Interval interval;
  if (const auto* steps = std::get_if<std::int64_t>(&value)) {
    interval.steps = *steps;
    return interval;
  }
  const auto& text = std::get<std::string>(value);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, interval.epochs);
  const std::string_view unit(rest, end);
  constexpr double kMaxEpochs = 1e6;
  const bool is_in_range = interval.epochs > 0 && interval.epochs <= kMaxEpochs;
  if (error != std::errc() || !is_in_range || (unit != " epoch" && unit != " epochs"))
    throw not_an_interval(key, text);
  return interval;
}

std::int64_t shown_weight(const RunConfig& config, const std::optional<int>& given) {
  return given.value_or(default_end_weight(config.parallelism.pipeline.partition.convention));
}

}  // namespace

Row unbuilt_key(const char* section, const char* name, Value (*default_value)(const RunConfig&),
                const std::vector<Kind>& others) {
  std::vector<Kind> kinds = {kind_of(default_value({}))};
  kinds.insert(kinds.end(), others.begin(), others.end());
  Row row = mixed_key(section, name, kinds, default_value, [](RunConfig&, const Value&) {});
  row.is_built = false;
  return row;
}

Row betas_key() {
  return mixed_key(
      "optimizer", "betas", {Kind::kNumbers},
      [](const RunConfig& config) -> Value {
        const std::array<double, 2>& betas = config.optimizer.betas;
        return std::vector<double>(betas.begin(), betas.end());
      },
      [](RunConfig& config, const Value& value) {
        const auto& betas = std::get<std::vector<double>>(value);
        if (betas.size() != 2) {
          throw Error(ErrorKind::kUsage, {.what = "optimizer.betas: expected two numbers, found " +
                                                  std::to_string(betas.size()),
                                          .remedy = "for example optimizer.betas = [0.9, 0.95]"});
        }
        std::copy(betas.begin(), betas.end(), config.optimizer.betas.begin());
      });
}

Row schedule_key() {
  return mixed_key(
      "parallelism", "pipeline_parallel_schedule", {Kind::kString},
      [](const RunConfig& config) -> Value {
        const ScheduleChoice& schedule = config.parallelism.pipeline.schedule;
        if (schedule.is_auto) return std::string("auto");
        return schedule.name.value_or(ScheduleKind::k1F1B).text();
      },
      [](RunConfig& config, const Value& value) {
        const std::string key = "parallelism.pipeline_parallel_schedule";
        const auto& name = std::get<std::string>(value);
        try {
          config.parallelism.pipeline.schedule = name;
        } catch (const Error& error) {
          throw Error(ErrorKind::kUsage,
                      {.what = key + ": " + error.fact(), .remedy = error.remedy()});
        }
      });
}

Row device_memory_key() {
  return mixed_key(
      "parallelism", "device_memory", {Kind::kString},
      [](const RunConfig& config) -> Value { return config.parallelism.device_memory; },
      [](RunConfig& config, const Value& value) {
        const auto& text = std::get<std::string>(value);
        if (!text.empty() && !bytes_of_text(text)) {
          throw Error(
              ErrorKind::kUsage,
              {.what = "parallelism.device_memory: '" + text + "' is not an amount of memory",
               .remedy = "write \"80GB\", \"640MiB\" or a number of bytes"});
        }
        config.parallelism.device_memory = text;
      });
}

Row partition_convention_key() {
  Row row = mixed_key(
      "parallelism", "partition_convention", {Kind::kString},
      [](const RunConfig& config) -> Value {
        return config.parallelism.pipeline.partition.convention.text();
      },
      [](RunConfig& config, const Value& value) {
        config.parallelism.pipeline.partition.convention = std::get<std::string>(value);
      });
  return row.one_of(partition_conventions());
}

Row lora_target_key() {
  return mixed_key(
      "lora", "target", {Kind::kString, Kind::kStrings},
      [](const RunConfig& config) -> Value {
        const std::vector<std::string>& target = config.lora.target;
        if (target == std::vector<std::string>{kAllLinear}) return std::string(kAllLinear);
        return target;
      },
      [](RunConfig& config, const Value& value) {
        if (const auto* names = std::get_if<std::vector<std::string>>(&value))
          config.lora.target = *names;
        else
          config.lora.target = {std::get<std::string>(value)};
      });
}

Row train_on_key() {
  Row row = mixed_key(
      "data", "train_on", {Kind::kStrings, Kind::kString},
      [](const RunConfig& config) -> Value {
        const std::vector<std::string>& words = config.data.train_on;
        const bool is_word = words.size() == 1 && words.front() != "assistant";
        return is_word ? Value(words.front()) : Value(words);
      },
      [](RunConfig& config, const Value& value) {
        if (const auto* words = std::get_if<std::vector<std::string>>(&value))
          config.data.train_on = *words;
        else
          config.data.train_on = {std::get<std::string>(value)};
      });
  return row.one_of({"assistant", "last", "all"});
}

Row no_decay_key() {
  return mixed_key(
      "optimizer", "no_decay", {Kind::kString, Kind::kStrings},
      [](const RunConfig& config) -> Value {
        const std::vector<std::string>& patterns = config.optimizer.no_decay;
        if (patterns == std::vector<std::string>{kNormsAndBiases})
          return std::string(kNormsAndBiases);
        return patterns;
      },
      [](RunConfig& config, const Value& value) {
        if (const auto* patterns = std::get_if<std::vector<std::string>>(&value))
          config.optimizer.no_decay = *patterns;
        else
          config.optimizer.no_decay = {std::get<std::string>(value)};
      });
}

Row checkpoint_interval_key() {
  return mixed_key(
      "checkpoint", "interval", {Kind::kInteger, Kind::kString},
      [](const RunConfig& config) { return shown_interval(config.checkpoint.interval); },
      [](RunConfig& config, const Value& value) {
        config.checkpoint.interval = interval_of("checkpoint.interval", value);
      });
}

Row validation_interval_key() {
  return mixed_key(
      "validation", "interval", {Kind::kInteger, Kind::kString},
      [](const RunConfig& config) { return shown_interval(config.validation.interval); },
      [](RunConfig& config, const Value& value) {
        config.validation.interval = interval_of("validation.interval", value);
      });
}

Row activation_checkpoint_key() {
  return mixed_key(
      "training", "activation_checkpoint", {Kind::kString, Kind::kStrings},
      [](const RunConfig& config) -> Value {
        const ActivationCheckpoint& twice = config.training.activation_checkpoint;
        if (twice.kind == ActivationCheckpoint::kLayers) return twice.names;
        return std::string(twice.kind == ActivationCheckpoint::kFull ? "full" : "none");
      },
      [](RunConfig& config, const Value& value) {
        ActivationCheckpoint& twice = config.training.activation_checkpoint;
        if (const auto* names = std::get_if<std::vector<std::string>>(&value))
          twice = {ActivationCheckpoint::kLayers, *names};
        else if (std::get<std::string>(value) == "full")
          twice = ActivationCheckpoint::kFull;
        else
          twice = ActivationCheckpoint::kNone;
      });
}

Row stage_to_rank_key() {
  return mixed_key(
      "parallelism", "stage_to_rank", {Kind::kString, Kind::kIntegers},
      [](const RunConfig& config) -> Value {
        const PartitionOptions& options = config.parallelism.pipeline.partition;
        if (options.stage_to_rank.empty()) {
          return options.placement ? word_of(words_of(Placement()), *options.placement)
                                   : std::string("auto");
        }
        return std::vector<std::int64_t>(options.stage_to_rank.begin(),
                                         options.stage_to_rank.end());
      },
      [](RunConfig& config, const Value& value) {
        PartitionOptions& options = config.parallelism.pipeline.partition;
        options.stage_to_rank.clear();
        options.placement.reset();
        if (const auto* word = std::get_if<std::string>(&value)) {
          if (*word != "auto") options.placement = meaning_of(words_of(Placement()), *word);
          return;
        }
        for (const std::int64_t rank : std::get<std::vector<std::int64_t>>(value)) {
          options.stage_to_rank.push_back(static_cast<int>(rank));
        }
        if (!options.stage_to_rank.empty()) return;
        throw Error(ErrorKind::kUsage, {.what = "parallelism.stage_to_rank is an empty list",
                                        .remedy = "write \"auto\", or the rank of every stage"});
      });
}

Row scale_grads_key() {
  Row row = mixed_key(
      "parallelism", "scale_grads", {Kind::kString, Kind::kNumber, Kind::kBool},
      [](const RunConfig& config) -> Value {
        const GradientScale& scale = config.parallelism.scale_grads;
        if (scale.kind == GradientScale::kDivisor) return scale.divisor;
        return word_of(words_of(scale.kind), scale.kind);
      },
      [](RunConfig& config, const Value& value) {
        GradientScale& scale = config.parallelism.scale_grads;
        if (const auto* word = std::get_if<std::string>(&value)) {
          scale = meaning_of(words_of(GradientScale::kTokens), *word);
        } else if (const auto* divisor = std::get_if<double>(&value)) {
          scale = {GradientScale::kDivisor, *divisor};
        } else {  // a bool, like torch's scale_grads
          scale = std::get<bool>(value) ? GradientScale::kMicrobatches : GradientScale::kSumOfMeans;
        }
      });
  return row.one_of(words_in(words_of(GradientScale::kTokens)));
}

Row resume_key() {
  return mixed_key(
      "checkpoint", "resume", {Kind::kString, Kind::kInteger},
      [](const RunConfig& config) -> Value {
        const ResumeFrom& resume = config.checkpoint.resume;
        if (resume.kind == ResumeFrom::kStep) return resume.step;
        if (resume.kind == ResumeFrom::kPath) return resume.path;
        return std::string(resume.kind == ResumeFrom::kNone ? "none" : "auto");
      },
      [](RunConfig& config, const Value& value) {
        ResumeFrom& resume = config.checkpoint.resume;
        resume = {};
        if (const auto* step = std::get_if<std::int64_t>(&value)) {
          resume = {ResumeFrom::kStep, *step};
        } else if (const auto& text = std::get<std::string>(value); text == "none") {
          resume.kind = ResumeFrom::kNone;
        } else if (const auto number = whole_number(text)) {
          resume = {ResumeFrom::kStep, *number};
        } else if (text != "auto") {
          resume = {.kind = ResumeFrom::kPath, .path = text};
        }
      });
}

Row first_stage_weight_key() {
  return mixed_key(
      "parallelism", "first_stage_weight", {Kind::kInteger},
      [](const RunConfig& config) -> Value {
        return shown_weight(config, config.parallelism.pipeline.partition.first_stage_weight);
      },
      [](RunConfig& config, const Value& value) {
        config.parallelism.pipeline.partition.first_stage_weight =
            static_cast<int>(std::get<std::int64_t>(value));
      });
}

Row last_stage_weight_key() {
  return mixed_key(
      "parallelism", "last_stage_weight", {Kind::kInteger},
      [](const RunConfig& config) -> Value {
        return shown_weight(config, config.parallelism.pipeline.partition.last_stage_weight);
      },
      [](RunConfig& config, const Value& value) {
        config.parallelism.pipeline.partition.last_stage_weight =
            static_cast<int>(std::get<std::int64_t>(value));
      });
}

bool contains(const Range& range, double value) {
  return std::isfinite(value) && (range.above_min ? value > range.min : value >= range.min) &&
         (range.below_max ? value < range.max : value <= range.max);
}

std::string to_text(const Range& range) {
  const auto number = [](double value) {
    const bool has_digits = value == std::floor(value) && std::abs(value) < 1e18;
    return has_digits ? fixed(value, 0) : shortest(value);
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
