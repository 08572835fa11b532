#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

// Returns which part of the backward each stage must compute, given which layers train. `outputs`
// are the values that leave the model. If empty, these are all values that no layer reads.
std::vector<StageBackward> stage_backwards(const ModelSpec& model, const Partition& partition,
                                           const std::vector<bool>& layer_trains,
                                           const std::vector<std::string>& outputs = {});

}  // namespace sluice
