#pragma once

#include <string>

#include "base/format.h"
#include "config/key_table.h"
#include "config/run_config.h"
#include "config/value.h"

namespace sluice::detail {

struct Source {
  std::string file;  // configuration file, or "" for the command line and the environment
  std::string folder;
  std::string origin;  // "run.toml:12:1", "--training.steps", "SLUICE_TRAINING_STEPS"

  std::string at(Position position) const {
    if (file.empty() || position.line == 0) return origin;
    return formatted("{}:{}:{}", file, position.line, position.column);
  }
};

// Returns the converted value. Throws Error(kUsage) for a wrong value or list element.
Value set_value(RunConfig& config, const Key& key, const RawValue& raw, const Source& source);

}  // namespace sluice::detail
