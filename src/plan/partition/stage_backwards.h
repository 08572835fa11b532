// The part of a backward that each stage has to compute.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/partition.h"

namespace sluice {

// The backwards that the stages of a partition have to compute when these layers train, by what
// layers read and write. outputs: the values that leave the model; empty: all that no layer reads.
std::vector<StageBackward> stage_backwards(const ModelSpec& model, const Partition& partition,
                                           const std::vector<bool>& layer_trains,
                                           const std::vector<std::string>& outputs = {});

}  // namespace sluice
