#pragma once

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

// Returns the index of the layer that has a parameter, or -1. If prefixes or names of several
// layers start the full name, the longest wins. An empty prefix never matches.
inline int owner_of(const std::string& parameter, const std::vector<LayerSpec>& layers) {
  int owner = -1;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const std::string& start : {layers[i].prefix.value_or(layers[i].name), layers[i].name}) {
      const bool begins = parameter == start || parameter.starts_with(start + ".");
      if (!begins || start.size() <= longest) continue;
      owner = static_cast<int>(i);
      longest = start.size();
    }
  }
  return owner;
}

}  // namespace sluice
