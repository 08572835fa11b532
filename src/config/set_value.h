// One value into the configuration: type, range, words, paths.
// Thread-safety: pure functions, but for the environment that paths name.
#pragma once

#include <string>

#include "base/format.h"
#include "config/key_table.h"
#include "config/run_config.h"
#include "config/value.h"

namespace sluice::detail {

// The place where a value was given.
struct Source {
  std::string file;    // "" on the command line and in the environment
  std::string folder;  // base of relative paths
  std::string origin;  // "run.toml:12:1", "--training.steps", "SLUICE_TRAINING_STEPS"

  std::string at(Position position) const {
    if (file.empty() || position.line == 0) return origin;
    return formatted("{}:{}:{}", file, position.line, position.column);
  }
};

// Returns what it is as a Value. Throws Error(kUsage) at the value, or at the element of the list
// that is wrong.
Value set_value(RunConfig& config, const Key& key, const RawValue& raw, const Source& source);

}  // namespace sluice::detail
