// The table of all configuration keys, for parsing, checking, showing and the key reference.
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
std::string to_text(const Range& range);  // "at least 1", "0 to 1"; empty if unbounded

struct Key {
  std::string section, name;
  std::vector<Kind> kinds;
  Value (*get)(const RunConfig&) = nullptr;
  void (*set)(RunConfig&, const Value&) = nullptr;
  Range range;
  std::vector<std::string> words;  // empty: any string
  bool is_built = true;            // false: accepts only the default
  bool is_path = false;            // expand ~ and ${VAR}; relative to the file
  bool may_be_empty = true;
  bool affects_split = false;    // named when an error is about the split
  bool affects_data = false;     // changes which sequence of the data is number n
  bool affects_numbers = false;  // changes the bits of losses and weights
  std::string option;            // name in the library's messages, or ""
  std::string meaning;

  std::string full_name() const { return section + "." + name; }
  std::string variable() const;
  Value default_value() const { return get(RunConfig{}); }
};

const std::vector<Key>& key_table();
std::vector<std::string> section_names();

}  // namespace sluice::detail
