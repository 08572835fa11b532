// Reading a RunConfig: file, environment and command line, one value at a time through the table.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "config/check.h"
#include "config/key_table.h"
#include "config/paths.h"
#include "config/toml_reader.h"
#include "sluice/error.h"
#include "sluice/run_config.h"

namespace sluice {
namespace detail {
namespace {

// Where a value was given.
struct Source {
  std::string file;    // "" on the command line and in the environment
  std::string folder;  // of relative paths
  std::string origin;  // "run.toml:12:1", "--training.steps", "SLUICE_TRAINING_STEPS"

  std::string at(Position position) const {
    if (file.empty() || position.line == 0) return origin;
    return file + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
  }
};

std::string example(const Key& key) {
  Value value = key.default_value();
  if (key.name == "files") value = std::vector<std::string>{"corpus/*.txt"};
  return "for example " + key.full_name() + " = " + to_toml(value);
}

Error wrong_type(const Key& key, const RawValue& raw, const RawValue& misfit,
                 const Source& source) {
  std::vector<std::string> types;
  for (const Kind kind : key.kinds) {
    const std::string type = to_text(kind);
    types.push_back((kind == Kind::kBool ? "" : type.starts_with('i') ? "an " : "a ") + type);
  }
  std::string remedy = example(key);
  const bool wants_string =
      key.kinds.front() == Kind::kString || key.kinds.front() == Kind::kStrings;
  const bool wants_integer = key.kinds.front() == Kind::kInteger;
  const bool is_element = &raw != &misfit;
  if (wants_string && is_element == (key.kinds.front() == Kind::kStrings) &&
      misfit.type == RawValue::Type::kInteger) {
    remedy = "write \"" + std::to_string(misfit.integer) + "\" with quotes";
  } else if (wants_integer && misfit.type == RawValue::Type::kNumber &&
             misfit.number == static_cast<double>(static_cast<std::int64_t>(misfit.number))) {
    remedy = "write " + std::to_string(static_cast<std::int64_t>(misfit.number));
  }
  std::string found = describe(misfit);
  if (is_element) found += " in the list";
  return Error(ErrorKind::kUsage,
               key.full_name() + ": expected " + join(types, " or ") + ", found " + found,
               source.at(misfit.position), remedy);
}

void check_number(const Key& key, double number, const RawValue& raw, const Source& source) {
  if (contains(key.range, number)) return;
  const std::string range = to_text(key.range);
  throw Error(ErrorKind::kUsage, key.full_name() + ": " + describe(raw) + " is out of range",
              source.at(raw.position),
              range.empty() ? "write a finite number" : "write a number " + range);
}

void check_string(const Key& key, const std::string& text, const RawValue& raw,
                  const Source& source) {
  const std::vector<std::string>& words = key.words;
  if (!words.empty() && std::find(words.begin(), words.end(), text) == words.end()) {
    std::vector<std::string> named;  // the empty word is written as ""
    for (const std::string& word : words) named.push_back(word.empty() ? "\"\"" : word);
    throw Error(ErrorKind::kUsage, key.full_name() + ": '" + text + "' is not one of its words",
                source.at(raw.position), suggest_name(text, named));
  }
  if (text.empty() && !key.may_be_empty) {
    throw Error(ErrorKind::kUsage, key.full_name() + ": an empty string", source.at(raw.position),
                example(key));
  }
  if (text.find('\0') != std::string::npos) {
    throw Error(ErrorKind::kUsage, key.full_name() + ": a string with a NUL character",
                source.at(raw.position));
  }
}

// Range and words hold for the elements of a list too, but for lists beside a word ("full" or
// names).
void check_value(const Key& key, const Value& value, const RawValue& raw, const Source& source) {
  if (raw.type == RawValue::Type::kList) {
    for (const RawValue& element : raw.list) {
      if (element.type == RawValue::Type::kString) {
        if (key.words.empty()) check_string(key, element.string, element, source);
      } else if (element.type == RawValue::Type::kInteger) {
        check_number(key, static_cast<double>(element.integer), element, source);
      } else if (element.type == RawValue::Type::kNumber) {
        check_number(key, element.number, element, source);
      }
    }
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    check_string(key, *text, raw, source);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    check_number(key, static_cast<double>(*integer), raw, source);
  } else if (const auto* number = std::get_if<double>(&value)) {
    check_number(key, *number, raw, source);
  }
}

void expand_paths(const Key& key, Value& value, const Source& source) {
  if (auto* list = std::get_if<std::vector<std::string>>(&value)) {
    for (std::string& path : *list) path = expand_path(path, source.folder, source.origin);
  } else if (auto* path = std::get_if<std::string>(&value)) {
    // "auto", "none" and a step number of checkpoint.resume are no paths.
    const bool is_step =
        std::all_of(path->begin(), path->end(), [](char c) { return c >= '0' && c <= '9'; });
    if (key.full_name() == "checkpoint.resume" && (*path == "auto" || *path == "none" || is_step)) {
      return;
    }
    *path = expand_path(*path, source.folder, source.origin);
  }
}

void set_value(RunConfig& config, const Key& key, const RawValue& raw, const Source& source) {
  Value value;
  const RawValue* misfit = nullptr;
  if (!convert(raw, key.kinds, value, misfit)) throw wrong_type(key, raw, *misfit, source);
  check_value(key, value, raw, source);
  if (key.is_path) expand_paths(key, value, source);
  key.set(config, value);
  config.origins[key.full_name()] = source.origin;
}

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

std::string read_file(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw Error(ErrorKind::kUsage, "the configuration is a folder", file, "name a .toml file");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw Error(ErrorKind::kUsage,
                std::string("cannot read the configuration: ") +
                    (std::filesystem::exists(file, error) ? "no permission" : "no such file"),
                file);
  }
  // One byte more than the reader takes, so that it can refuse.
  std::string text(kMaxTomlBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

void load_file(RunConfig& config, const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  for (const RawKey& raw : read_toml(read_file(file), file)) {
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
