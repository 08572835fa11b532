// Follows PEFT's LoraConfig.
#include "family/lora/adapter_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/file.h"
#include "base/strict_json.h"
#include "family/config_reader.h"
#include "family/known_keys.h"
#include "kind/adapter_files.h"
#include "sluice/error.h"
#include "sluice/lora.h"

namespace sluice {
namespace detail {
namespace {

template <typename List>
bool contains(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

bool is_neutral(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.boolean();
  if (value.is_number()) return value.number() == 0;
  return value.empty() || (value.is_string() && value.text().empty());
}

// Matches `(.*\.)?(pattern)$`, where a dot in the pattern matches any character.
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
  Reader(const Json& document, const std::string& file)
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
    out.base = document_.at("base_model_name_or_path").is_string()
                   ? document_.at("base_model_name_or_path").text()
                   : "";
    read_modules(out);
    read_patterns(out);
    refuse_the_rest();
    return out;
  }

 private:
  void require_known_type() const {
    if (config_.text("peft_type", "") != "LORA") {
      config_.fail("peft_type",
                   "adapters of type '" + config_.text("peft_type", "") + "' are not implemented",
                   "use an adapter with \"LORA\"");
    }
    if (const std::string task = config_.text("task_type", "CAUSAL_LM"); task != "CAUSAL_LM")
      config_.fail("task_type", "adapters for the task '" + task + "' are not implemented",
                   "use an adapter with \"CAUSAL_LM\"");
    if (const std::string bias = config_.text("bias", "none"); bias != "none")
      config_.fail("bias", "biases that are trained, '" + bias + "', are not implemented",
                   "use an adapter with \"none\"");
    require_plain_initialization();
  }

  // Other initializations modify the base model's weights.
  void require_plain_initialization() const {
    const Json& found = document_.at("init_lora_weights");
    if (found.is_boolean() || found.is_null()) return;
    constexpr std::array<std::string_view, 3> kKept = {"gaussian", "eva", "orthogonal"};
    if (found.is_string() && contains(kKept, found.text())) return;
    config_.fail("init_lora_weights", found.shown() + " changes the weights of the base",
                 "convert the adapter (PEFT: path_initial_model_for_weight_conversion)");
  }

  double positive(const std::string& key, double fallback) const {
    const double value = config_.number(key).value_or(fallback);
    if (!(value > 0)) config_.fail(key, "it is not above 0", "write a number above 0");
    return value;
  }

  std::vector<std::string> names(const std::string& key) const {
    std::vector<std::string> names;
    for (const Json& name : document_.at(key).list()) {
      if (!name.is_string() || name.text().empty())
        config_.fail(key, name.shown() + " is not the name of a module", "write names in quotes");
      names.push_back(name.text());
    }
    return names;
  }

  static bool is_all_linear(const Json& target) {
    std::string text = target.is_string() ? target.text() : "";
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text == "all-linear";
  }

  // Empty values select no module.
  ModuleChoice read_choice(const std::string& key) const {
    ModuleChoice out;
    const Json& value = document_.at(key);
    if (value.is_array()) {
      out.ends = names(key);
    } else if (!value.is_string()) {
      config_.fail(key, value.shown() + " is neither a list nor a string", "write a list of names");
    } else if (!value.text().empty()) {
      try {
        out.expression = ModuleExpression(value.text());
      } catch (const std::invalid_argument& error) {
        config_.fail(key, value.shown() + ": " + error.what(), "write a list of names");
      }
    }
    return out;
  }

  void read_modules(AdapterConfig& out) const {
    if (!config_.has("target_modules"))
      config_.fail_missing("target_modules", "PEFT writes it: a list of names");
    if (is_all_linear(document_.at("target_modules"))) {
      out.targets.all_linear = true;
    } else {
      out.targets = read_choice("target_modules");
      if (out.targets.ends.empty() && !out.targets.expression)
        config_.fail("target_modules", "it names no module", "write the names of linear layers");
    }
    if (config_.has("exclude_modules")) out.excluded = read_choice("exclude_modules");
  }

  template <typename Value, typename Read>
  void read_pattern(const std::string& key, std::vector<std::pair<std::string, Value>>& out,
                    Read read) const {
    const auto patterns = config_.object(key);
    if (!patterns) return;
    for (const auto& [pattern, value] : document_.at(key).members()) {
      if (!is_plain_pattern(pattern)) {
        config_.fail(key, "the pattern " + Json(pattern).shown() + " is a regular expression",
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

  // Unknown keys may come from a newer PEFT.
  void refuse_the_rest() const {
    require_neutral_keys(config_, adapter_keys());
    for (const auto& [key, value] : document_.members()) {
      if (find_known_key(adapter_keys(), key) || is_neutral(value)) continue;
      config_.fail(key, "'" + key + "' = " + value.shown() + " is not known",
                   "use an adapter without it");
    }
  }

  const Json& document_;
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
                  {.what = "two patterns match '" + module + "' with different values",
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

namespace {

bool chooses(const ModuleChoice& choice, const LinearLayer& layer, const std::string& file,
             const std::string& field) {
  if (choice.all_linear) return !layer.is_head;
  try {
    if (choice.expression) return choice.expression->matches(layer.name);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorKind::kInput,
                {.what = std::string("the expression cannot be used: ") + error.what(),
                 .where = file + ", field '" + field + "'",
                 .remedy = "write a list of names"});
  }
  return std::any_of(choice.ends.begin(), choice.ends.end(), [&](const std::string& end) {
    return layer.name == end || layer.name.ends_with("." + end);
  });
}

}  // namespace

bool AdapterConfig::is_targeted(const LinearLayer& layer) const {
  return chooses(targets, layer, file, "target_modules");
}

bool AdapterConfig::is_excluded(const LinearLayer& layer) const {
  return chooses(excluded, layer, file, "exclude_modules");
}

AdapterConfig parse_adapter_config(const std::string& text, const std::string& file) {
  const Json document = parse_strict_json(text, file);
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
