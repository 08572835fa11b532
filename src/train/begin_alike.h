#pragma once

#include <vector>

#include "engine/run_groups.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Makes drawn weights equal where ranks draw them alone. All uses of a tie get the value of the
// first use, frozen or not. All replicas get the parameters and buffers of replica 0. Collective
// over all ranks. by_module: Initialization::module drew the weights. Then a module's own
// parameters must be on one stage: several stages would draw them from the same random numbers.
// Throws Error(kUsage) otherwise.
void begin_alike(const std::vector<Stage*>& stages, const RunGroups& groups, bool by_module);

}  // namespace sluice
