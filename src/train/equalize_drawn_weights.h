#pragma once

#include <vector>

#include "engine/run_groups.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Makes randomly initialized weights equal across ranks. All uses of a tied parameter, frozen or
// not, get the first use's value. All replicas get replica 0's parameters and buffers. Collective
// over all ranks. by_module: true if Initialization::module drew the weights. Throws Error(kUsage)
// if a module then has parameters on several stages, which would draw the same random numbers.
void equalize_drawn_weights(const std::vector<Stage*>& stages, const RunGroups& groups,
                            bool by_module);

}  // namespace sluice
