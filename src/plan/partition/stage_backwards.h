#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

// Returns the part of the backward that each stage computes. Empty `outputs` mean all values that
// no layer reads.
std::vector<StageBackward> stage_backwards(const ModelSpec& model, const Partition& partition,
                                           const std::vector<bool>& layer_trains,
                                           const std::vector<std::string>& outputs = {});

}  // namespace sluice
