#pragma once

#include <string>

#include "config/run_config.h"

namespace sluice {

// True if a file, the environment or the command line sets the key ("section.name").
inline bool is_set(const RunConfig& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  return origin != config.origins.end() && origin->second != "default";
}

}  // namespace sluice
