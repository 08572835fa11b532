// Fields and their meaning are those of PEFT's LoraConfig.
#include "plan/lora/adapter_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/strict_json.h"
#include "plan/families/config_reader.h"
#include "sluice/error.h"
#include "sluice/lora.h"

namespace sluice {
namespace detail {
namespace {

// Of what made the adapter, and of how it was made: it is made.
constexpr std::array<std::string_view, 14> kOfNoEffect = {
    "auto_mapping",   "corda_config",           "eva_config",
    "fan_in_fan_out", "inference_mode",         "lora_ga_config",
    "megatron_core",  "peft_version",           "qalora_group_size",
    "revision",       "runtime_config",         "ensure_weight_tying",
    "loftq_config",   "base_model_name_or_path"};
constexpr std::array<std::string_view, 14> kRead = {
    "peft_type",      "task_type",          "r",
    "lora_alpha",     "lora_dropout",       "use_rslora",
    "bias",           "target_modules",     "exclude_modules",
    "rank_pattern",   "alpha_pattern",      "init_lora_weights",
    "layers_pattern", "layers_to_transform"};

template <typename List>
bool contains(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// null, false, 0, "", [] and {} ask for nothing.
bool is_neutral(const nlohmann::json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  return value.empty() || (value.is_string() && value.get<std::string>().empty());
}

std::string shown(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// `(.*\.)?(pattern)$` of a pattern of names and dots alone, a dot being any character.
bool matches_end(const std::string& pattern, const std::string& name) {
  if (pattern.size() > name.size()) return false;
  const std::size_t start = name.size() - pattern.size();
  if (start > 0 && name[start - 1] != '.') return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '.' && pattern[i] != name[start + i]) return false;
  }
  return true;
}

bool is_plain_pattern(const std::string& pattern) {
  return !pattern.empty() && std::all_of(pattern.begin(), pattern.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

class Reader {
 public:
  Reader(const nlohmann::json& document, const std::string& file)
      : document_(document), config_(document, file) {}

  AdapterConfig read() const {
    require_known_type();
    AdapterConfig out;
    out.file = config_.file_name();
    out.rank = config_.size("r", 8, kMaxLoraRank);
    out.alpha = positive("lora_alpha", 8);
    out.dropout = config_.number("lora_dropout", 0, 0, 1);
    if (out.dropout >= 1) config_.fail("lora_dropout", "1 drops everything", "write less than 1");
    out.rank_stabilized = config_.flag("use_rslora", false);
    out.base = document_.contains("base_model_name_or_path") &&
                       document_.at("base_model_name_or_path").is_string()
                   ? document_.at("base_model_name_or_path").get<std::string>()
                   : "";
    read_modules(out);
    read_patterns(out);
    refuse_the_rest();
    return out;
  }

 private:
  void require_known_type() const {
    if (config_.text("peft_type", "") != "LORA") {
      config_.fail("peft_type", "an adapter of type '" + config_.text("peft_type", "") + "'",
                   "only \"LORA\" is implemented");
    }
    if (const std::string task = config_.text("task_type", "CAUSAL_LM"); task != "CAUSAL_LM")
      config_.fail("task_type", "an adapter for the task '" + task + "'",
                   "only \"CAUSAL_LM\" is implemented");
    if (const std::string bias = config_.text("bias", "none"); bias != "none")
      config_.fail("bias", "biases that are trained, '" + bias + "', are not implemented",
                   "use an adapter with \"none\"");
    require_plain_initialization();
  }

  // Others take something out of the base's weights, which is then another base.
  void require_plain_initialization() const {
    const auto found = document_.find("init_lora_weights");
    if (found == document_.end() || found->is_boolean() || found->is_null()) return;
    constexpr std::array<std::string_view, 3> kKept = {"gaussian", "eva", "orthogonal"};
    if (found->is_string() && contains(kKept, found->get<std::string>())) return;
    config_.fail("init_lora_weights", shown(*found) + " changes the weights of the base",
                 "convert the adapter (PEFT: path_initial_model_for_weight_conversion)");
  }

  double positive(const std::string& key, double fallback) const {
    const double value = config_.number(key).value_or(fallback);
    if (!(value > 0)) config_.fail(key, "it is not above 0", "write a number above 0");
    return value;
  }

  std::vector<std::string> names(const std::string& key) const {
    std::vector<std::string> names;
    for (const nlohmann::json& name : document_.at(key)) {
      if (!name.is_string() || name.get<std::string>().empty())
        config_.fail(key, shown(name) + " is not the name of a module", "write names in quotes");
      names.push_back(name.get<std::string>());
    }
    return names;
  }

  void read_modules(AdapterConfig& out) const {
    if (!config_.has("target_modules"))
      config_.fail_missing("target_modules", "PEFT writes it: a list of names");
    const nlohmann::json& target = document_.at("target_modules");
    if (target.is_array()) {
      out.targets = names("target_modules");
      if (out.targets.empty())
        config_.fail("target_modules", "it names no module", "write the names of linear layers");
    } else if (!target.is_string()) {
      config_.fail("target_modules", shown(target) + " is neither a list nor a string",
                   "write a list of names");
    }
    if (!config_.has("exclude_modules")) return;
    if (document_.at("exclude_modules").is_array()) {
      out.excluded = names("exclude_modules");
    } else {
      out.targets.clear();  // what a regular expression leaves over, the tensors say
    }
  }

  template <typename Value, typename Read>
  void read_pattern(const std::string& key, std::vector<std::pair<std::string, Value>>& out,
                    Read read) const {
    const auto patterns = config_.object(key);
    if (!patterns) return;
    for (const auto& [pattern, value] : document_.at(key).items()) {
      if (!is_plain_pattern(pattern)) {
        config_.fail(key, "the pattern " + shown(pattern) + " is a regular expression",
                     "write the ends of names of modules, such as \"q_proj\"");
      }
      if (!value.is_null()) out.emplace_back(pattern, read(*patterns, pattern));
    }
  }

  void read_patterns(AdapterConfig& out) const {
    read_pattern("rank_pattern", out.rank_of,
                 [](const ConfigReader& reader, const std::string& pattern) {
                   return reader.size(pattern, 8, kMaxLoraRank);
                 });
    read_pattern("alpha_pattern", out.alpha_of,
                 [](const ConfigReader& reader, const std::string& pattern) {
                   const double value = reader.number(pattern).value_or(0);
                   if (!(value > 0)) reader.fail(pattern, "it is not above 0", "write a number");
                   return value;
                 });
  }

  void refuse_the_rest() const {
    for (const auto& [key, value] : document_.items()) {
      const bool is_read = contains(kRead, key) && !key.starts_with("layers_");
      if (is_read || contains(kOfNoEffect, key) || is_neutral(value)) continue;
      const bool is_peft = !contains(kRead, key);
      config_.fail(key, "'" + key + "' = " + shown(value) + " is not implemented",
                   is_peft ? "use an adapter without it" : "name the modules in target_modules");
    }
  }

  const nlohmann::json& document_;
  ConfigReader config_;
};

template <typename Value>
Value value_at(const std::vector<std::pair<std::string, Value>>& patterns,
               const std::string& module, Value otherwise, const std::string& file,
               const std::string& field) {
  std::optional<Value> found;
  for (const auto& [pattern, value] : patterns) {
    if (!matches_end(pattern, module)) continue;
    if (found && *found != value) {
      throw Error(ErrorKind::kInput,
                  {.what = "two of its patterns match '" + module + "' with different values",
                   .where = file + ", field '" + field + "'",
                   .remedy = "keep one of them"});
    }
    found = value;
  }
  return found.value_or(otherwise);
}

}  // namespace

std::int64_t AdapterConfig::rank_at(const std::string& module) const {
  return value_at(rank_of, module, rank, file, "rank_pattern");
}

double AdapterConfig::alpha_at(const std::string& module) const {
  return value_at(alpha_of, module, alpha, file, "alpha_pattern");
}

bool AdapterConfig::targets_module(const std::string& module) const {
  const auto is_end = [&](const std::string& end) {
    return module == end || module.ends_with("." + end);
  };
  return std::none_of(excluded.begin(), excluded.end(), is_end) &&
         std::any_of(targets.begin(), targets.end(), is_end);
}

AdapterConfig parse_adapter_config(const std::string& text, const std::string& file) {
  const nlohmann::json document = parse_strict_json(text, file);
  if (!document.is_object()) {
    throw Error(ErrorKind::kInput, {.what = "the adapter's configuration is not a JSON object",
                                    .where = file,
                                    .remedy = "name a directory that PEFT has saved"});
  }
  return Reader(document, file).read();
}

AdapterConfig read_adapter_config(const std::string& directory) {
  const std::string file = directory + "/" + kAdapterConfigFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw Error(ErrorKind::kInput, {.what = std::string("there is no ") + kAdapterConfigFile,
                                    .where = directory,
                                    .remedy = "name a directory that PEFT has saved"});
  }
  return parse_adapter_config(read_text(file, kMaxAdapterConfigBytes), file);
}

}  // namespace detail

bool is_adapter_directory(const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory + "/" + kAdapterConfigFile, ignored);
}

std::string base_of_adapter(const std::string& directory) {
  return detail::read_adapter_config(directory).base;
}

}  // namespace sluice
