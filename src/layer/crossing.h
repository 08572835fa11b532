#pragma once

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

// Like values_crossing_cuts() of plan/crossing.h, but takes layers and returns names.
std::vector<std::vector<std::string>> values_crossing_cuts(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs);

}  // namespace sluice
