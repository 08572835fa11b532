// All configuration keys, for parsing, checks, output and the key reference.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "config/value.h"

namespace sluice::detail {

struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;
  bool below_max = false;
};
bool contains(const Range& range, double value);
std::string to_text(const Range& range);  // such as "at least 1"; "" if unbounded

struct Key {
  std::string section, name;
  std::vector<Kind> kinds;
  Value (*get)(const RunConfig&) = nullptr;
  void (*set)(RunConfig&, const Value&) = nullptr;
  Range range;
  std::vector<std::string> words;  // allowed words; empty: any string
  bool is_built = true;            // false: accepts only the default
  // ~ and ${VAR} are expanded, and relative paths start at the configuration file's folder
  bool is_path = false;
  bool may_be_empty = true;
  bool affects_split = false;    // listed by errors about the split into stages
  bool affects_data = false;     // changes the order of sequences
  bool affects_numbers = false;  // changes the bits of losses and weights
  std::string option;            // name in the library's error messages, or ""
  std::string meaning;

  std::string full_name() const { return section + "." + name; }
  std::string variable() const;
  Value default_value() const { return get(RunConfig{}); }
};

const std::vector<Key>& key_table();
std::vector<std::string> section_names();

}  // namespace sluice::detail
