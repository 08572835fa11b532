#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

// Returns which part of the backward each stage computes. If `outputs` is empty, all values that no
// layer reads are outputs.
std::vector<StageBackward> stage_backwards(const ModelSpec& model, const Partition& partition,
                                           const std::vector<bool>& layer_trains,
                                           const std::vector<std::string>& outputs = {});

}  // namespace sluice
