// Reading a RunConfig: file, environment and command line, one value at a time through the table.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "config/check.h"
#include "config/key_table.h"
#include "config/set_value.h"
#include "config/toml_reader.h"
#include "sluice/error.h"
#include "sluice/run_config.h"

namespace sluice {
namespace detail {
namespace {

const Key* find_key(const std::string& full_name) {
  const auto& table = key_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Key& key) { return key.full_name() == full_name; });
  return found == table.end() ? nullptr : &*found;
}

Error unknown_key(const std::string& section, const std::string& name, const std::string& where) {
  const std::vector<std::string> sections = section_names();
  std::vector<std::string> siblings;
  for (const Key& key : key_table()) {
    if (key.section == section) siblings.push_back(key.name);
  }
  const std::string shown = section.empty() ? name : section + "." + name;
  for (const Key& key : key_table()) {  // the right name in the wrong section
    if (key.name == name) {
      return Error(ErrorKind::kUsage, "unknown key '" + shown + "'", where,
                   "did you mean '" + key.full_name() + "'?");
    }
  }
  if (siblings.empty()) {
    return Error(ErrorKind::kUsage, "unknown section '" + section + "'", where,
                 suggest_name(section, sections));
  }
  return Error(ErrorKind::kUsage, "unknown key '" + shown + "'", where,
               suggest_name(name, siblings));
}

void load_file(RunConfig& config, const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  for (const RawKey& raw : read_toml(read_config_file(file), file)) {
    Source source{file, folder, {}};
    source.origin = source.at(raw.position);
    if (raw.name.empty()) {
      const std::vector<std::string> sections = section_names();
      const bool known = std::find(sections.begin(), sections.end(), raw.section) != sections.end();
      if (!known) {
        for (const Key& key : key_table()) {  // a key above the first section
          if (key.name == raw.section) throw unknown_key("", raw.section, source.origin);
        }
        throw unknown_key(raw.section, "", source.origin);
      }
      if (raw.value.other != "a table") {
        throw Error(ErrorKind::kUsage,
                    raw.section + ": expected a section, found " + describe(raw.value),
                    source.at(raw.value.position), "write [" + raw.section + "]");
      }
      continue;
    }
    const Key* key = find_key(raw.section + "." + raw.name);
    if (!key) throw unknown_key(raw.section, raw.name, source.origin);
    set_value(config, *key, raw.value, source);
  }
}

void load_environment(RunConfig& config, const std::map<std::string, std::string>& environment) {
  std::vector<std::string> names;
  for (const Key& key : key_table()) {
    names.push_back(key.variable());
    if (const auto found = environment.find(names.back()); found != environment.end()) {
      set_value(config, key, read_toml_value(found->second), Source{"", "", names.back()});
    }
  }
  // A typing error would otherwise do nothing; other variables of the name may have other users.
  for (const auto& [name, value] : environment) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    for (const std::string& section : section_names()) {
      const std::string prefix = "SLUICE_" + section + "_";
      if (to_lower(name).starts_with(to_lower(prefix))) {
        throw Error(ErrorKind::kUsage, "unknown variable " + name, "environment",
                    suggest_name(name, names));
      }
    }
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
      throw Error(ErrorKind::kUsage, "no value after " + name, "command line",
                  "write " + name + " VALUE or " + name + "=VALUE");
    }
  }
  rest.insert(rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  arguments = std::move(rest);
  return overrides;
}

RunConfig load_run_config(const std::string& file, const Overrides& overrides,
                          const std::map<std::string, std::string>& environment) {
  RunConfig config;
  config.file = file;
  for (const detail::Key& key : detail::key_table()) config.origins[key.full_name()] = "default";
  if (!file.empty()) detail::load_file(config, file);
  detail::load_environment(config, environment);
  for (const auto& [name, text] : overrides) {
    const detail::Key* key = detail::find_key(name);
    if (!key) {
      const std::size_t dot = name.find('.');
      throw detail::unknown_key(name.substr(0, dot),
                                dot == std::string::npos ? "" : name.substr(dot + 1), "--" + name);
    }
    detail::set_value(config, *key, detail::read_toml_value(text),
                      detail::Source{"", "", "--" + name});
  }
  detail::check_built(config);
  detail::check_together(config);
  return config;
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
