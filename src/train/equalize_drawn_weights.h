#pragma once

#include <vector>

#include "engine/run_groups.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Makes drawn weights equal across ranks. All uses of a tie, frozen or not, get the first use's
// value. All replicas get the parameters and buffers of replica 0. Collective over all ranks.
// by_module: Initialization::module drew the weights. A module's own parameters must then be on one
// stage, because several would draw the same random numbers. Otherwise throws Error(kUsage).
void equalize_drawn_weights(const std::vector<Stage*>& stages, const RunGroups& groups,
                            bool by_module);

}  // namespace sluice
