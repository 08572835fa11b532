#pragma once

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

// For each cut, which lies before layer `cuts[i]`, returns the names of values that must be sent
// across the cut.
std::vector<std::vector<std::string>> values_crossing_cuts(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs);

}  // namespace sluice
