// Drawn weights, where no rank can know alone that they are those of every layout.
#pragma once

#include <vector>

#include "engine/run_groups.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Whatever the layers of a tie have drawn, on all ranks all have the value of its first use, frozen
// or not; and all replicas have the parameters and buffers of replica 0. Collective over all ranks.
// by_module: they were drawn by Initialization::module. Throws Error(kUsage) then for a module with
// parameters of its own on several stages, which draw them from the same random numbers.
void begin_alike(const std::vector<Stage*>& stages, const RunGroups& groups, bool by_module);

}  // namespace sluice
