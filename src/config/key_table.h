// The table of every configuration key: what parsing, checking, showing and the reference share.
//
// Thread-safety: the table is immutable.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "config/value.h"

namespace sluice::detail {

// The range of a number, or of every number in a list.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
  bool below_max = false;
};
bool contains(const Range& range, double value);  // false for nan and infinities
std::string to_text(const Range& range);          // "at least 1", "0 to 1"; "" when unbounded

struct Key {
  std::string section, name;
  std::vector<Kind> kinds;  // accepted, in this order
  Value (*get)(const RunConfig&) = nullptr;
  void (*set)(RunConfig&, const Value&) = nullptr;
  Range range;
  std::vector<std::string> words;  // the strings allowed; empty: any
  bool is_built = true;            // false: nothing acts on it, so only its default is taken
  bool is_path = false;            // strings are paths: relative to the file, ~ and ${VAR}
  bool may_be_empty = true;        // the empty string is allowed
  bool decides_split = false;      // a place to look at when a split is refused
  bool decides_data = false;       // which sequence of the data is number n
  bool decides_numbers = false;    // the bits of losses and weights, beside model and data
  std::string option;              // what messages of the library call it; "": nothing
  std::string meaning;

  std::string full_name() const { return section + "." + name; }
  std::string variable() const;  // "SLUICE_TRAINING_STEPS"
  Value default_value() const { return get(RunConfig{}); }
};

const std::vector<Key>& key_table();
std::vector<std::string> section_names();  // in the order of the table

}  // namespace sluice::detail
