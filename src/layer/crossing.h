// The values that cross a cut.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

// For every cut before layer `cuts[i]`: the values that cross it, in the order of their first
// writing. batch_inputs never cross; final_outputs are read after the last layer.
// Throws Error(kUsage) for a value that nobody writes, or a layer that writes a batch input.
std::vector<std::vector<std::string>> crossing_values(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs);

}  // namespace sluice
