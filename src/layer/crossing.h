#pragma once

#include <string>
#include <vector>

#include "sluice/layer.h"

namespace sluice {

// Returns the names of the values that cross each cut between stages. values_crossing_cuts() of
// plan/crossing.h returns their numbers.
std::vector<std::vector<std::string>> values_crossing_cuts(
    const std::vector<LayerSpec>& layers, const std::vector<int>& cuts,
    const std::vector<std::string>& batch_inputs, const std::vector<std::string>& final_outputs);

}  // namespace sluice
