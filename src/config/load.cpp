#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/cpu_level.h"
#include "base/cuda_driver.h"
#include "base/error_list.h"
#include "base/format.h"
#include "base/product_kind.h"
#include "config/check.h"
#include "config/key_table.h"
#include "config/layout_free.h"
#include "config/run_config.h"
#include "config/set_value.h"
#include "config/toml_reader.h"
#include "config/unknown_key.h"
#include "plan/fault.h"
#include "sluice/error.h"

namespace sluice {
namespace detail {
namespace {

const Key* find_key(const std::string& full_name) {
  const auto& table = key_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Key& key) { return key.full_name() == full_name; });
  return found == table.end() ? nullptr : &*found;
}

// A SLUICE_ variable that is not a key. `check` throws for a wrong value.
struct OtherVariable {
  std::string name;
  void (*check)(const std::string& value);
};

void check_share_device(const std::string& value) {
  if (value == "0" || value == "1") return;
  throw Error(ErrorKind::kUsage, {.what = formatted("'{}' is neither 0 nor 1", value),
                                  .where = kShareDeviceVariable,
                                  .remedy = "set it to 1 to let ranks share a GPU, for tests"});
}

const std::vector<OtherVariable>& other_variables() {
  static const std::vector<OtherVariable> all = {
      {"SLUICE_JOB_SECRET", [](const std::string&) {}},
      {kFaultVariable, [](const std::string& value) { parse_faults(value); }},
      {kCpuVariable, [](const std::string& value) { parse_cpu_level(value); }},
      {kShareDeviceVariable, check_share_device},
      {kProductsVariable, [](const std::string& value) { parse_product_kind(value); }},
  };
  return all;
}

constexpr std::size_t kMostErrors = 100;

// Collects all errors, because a file written for another library has many unknown keys.
struct Reading {
  RunConfig config;
  Unbuilt unbuilt;
  std::vector<Error> errors;

  void set(const Key& key, const RawValue& raw, const Source& source) {
    try {
      const Value value = set_value(config, key, raw, source);
      if (!key.is_built) unbuilt[&key] = value;
    } catch (const Error& error) {
      add(error);
    }
  }

  void add(const Error& error) {
    errors.push_back(error);
    if (errors.size() == kMostErrors) throw_errors();
  }

  void throw_errors() const {
    if (errors.size() == 1) throw Error(errors.front());
    if (!errors.empty()) throw ErrorList(errors);
  }
};

void load_file(Reading& reading, const std::string& file) {
  // Relative paths start at the file's folder, or for a pipe such as <(...) at the working folder.
  std::error_code unknown;
  const std::string folder = std::filesystem::is_regular_file(file, unknown)
                                 ? std::filesystem::path(file).parent_path().string()
                                 : std::string();
  for (const RawKey& raw : read_toml(read_config_file(file), file)) {
    Source source{file, folder, {}};
    source.origin = source.at(raw.position);
    if (raw.name.empty()) {
      const std::vector<std::string> sections = section_names();
      const bool known = std::find(sections.begin(), sections.end(), raw.section) != sections.end();
      if (!known) {
        reading.add(unknown_key(raw.section, "", source.origin));
      } else if (raw.value.type != RawValue::Type::kTable) {
        reading.add(Error(ErrorKind::kUsage, {.what = raw.section + ": expected a section, found " +
                                                      describe(raw.value),
                                              .where = source.at(raw.value.position),
                                              .remedy = "write [" + raw.section + "]"}));
      }
      continue;
    }
    if (const Key* key = find_key(raw.section + "." + raw.name))
      reading.set(*key, raw.value, source);
    else
      reading.add(unknown_key(raw.section, raw.name, source.origin));
  }
}

void load_environment(Reading& reading, const std::map<std::string, std::string>& environment) {
  std::set<std::string> known;
  std::vector<std::string> others;
  for (const OtherVariable& other : other_variables()) {
    known.insert(other.name);
    others.push_back(other.name);
    const auto found = environment.find(other.name);
    if (found != environment.end() && !found->second.empty()) other.check(found->second);
  }
  for (const Key& key : key_table()) {
    const std::string name = key.variable();
    known.insert(name);
    if (const auto found = environment.find(name); found != environment.end()) {
      reading.set(key, read_toml_value(found->second), Source{"", "", name});
    }
  }
  for (const auto& [name, value] : environment) {
    if (!known.contains(name)) reading.add(unknown_variable(name, others));
  }
}

// Resets the alternative of a key that this source (file, environment, command line) sets, because
// a later source replaces an earlier one. `earlier` is the configuration before this source.
void reset_alternatives(RunConfig& config, const RunConfig& earlier) {
  for (const Alternatives& pair : kAlternatives) {
    const Key &first = *find_key(pair.first), &second = *find_key(pair.second);
    const auto is_new = [&](const Key& key) {
      return config.origins.at(key.full_name()) != earlier.origins.at(key.full_name());
    };
    const bool has_first = is_new(first);
    const bool has_second = is_new(second) && second.get(config) != second.default_value();
    if (has_first == has_second) continue;
    const Key& other = has_first ? second : first;
    other.set(config, other.default_value());
    config.origins[other.full_name()] = "default";
  }
}

void load_overrides(Reading& reading, const Overrides& overrides) {
  for (const auto& [name, text] : overrides) {
    if (const Key* key = find_key(name)) {
      reading.set(*key, read_toml_value(text), Source{"", "", "--" + name});
      continue;
    }
    const std::size_t dot = name.find('.');
    reading.add(unknown_key(name.substr(0, dot),
                            dot == std::string::npos ? "" : name.substr(dot + 1), "--" + name));
  }
}

}  // namespace
}  // namespace detail

Overrides take_overrides(std::vector<std::string>& arguments) {
  Overrides overrides;
  std::vector<std::string> rest;
  std::size_t i = 0;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (!name.starts_with("--") || name.find('.') == std::string::npos) {
      rest.push_back(argument);
      continue;
    }
    if (equals != std::string::npos) {
      overrides.emplace_back(name.substr(2), argument.substr(equals + 1));
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      overrides.emplace_back(name.substr(2), arguments[++i]);
    } else {
      throw Error(ErrorKind::kUsage,
                  {.what = "no value after " + name,
                   .where = "command line",
                   .remedy = formatted("write {} VALUE or {}=VALUE", name, name)});
    }
  }
  rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  arguments = std::move(rest);
  return overrides;
}

RunConfig load_run_config(const std::string& file, const Overrides& overrides,
                          const std::map<std::string, std::string>& environment, KindTable kinds) {
  detail::Reading reading;
  RunConfig& config = reading.config;
  config.kinds = kinds;
  config.file = file;
  for (const detail::Key& key : detail::key_table()) config.origins[key.full_name()] = "default";
  if (!file.empty()) detail::load_file(reading, file);
  const RunConfig of_file = config;
  detail::load_environment(reading, environment);
  detail::reset_alternatives(config, of_file);
  const RunConfig of_environment = config;
  detail::load_overrides(reading, overrides);
  detail::reset_alternatives(config, of_environment);
  for (const Error& error : detail::unbuilt_errors(config, reading.unbuilt)) reading.add(error);
  reading.throw_errors();
  detail::fix_shards(config);
  detail::check_together(config);
  return std::move(reading.config);
}

std::map<std::string, std::string> sluice_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (text.starts_with("SLUICE_") && equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace sluice
