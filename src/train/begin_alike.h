// Copies freshly drawn weights between ranks where drawing alone does not make them equal: for
// ties, tensor-parallel ranks and replicas.
#pragma once

#include <vector>

#include "engine/run_groups.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Gives all uses of a tied parameter, frozen or not, the value of the first use. Gives all replicas
// the parameters and buffers of replica 0. Collective over all ranks. by_module:
// Initialization::module drew the weights. Then a module whose own parameters are on several stages
// throws Error(kUsage), because every stage would draw them from the same random numbers.
void begin_alike(const std::vector<Stage*>& stages, const RunGroups& groups, bool by_module);

}  // namespace sluice
