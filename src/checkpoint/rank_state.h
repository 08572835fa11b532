#pragma once

#include <vector>

#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Divided parameters only have this rank's slices.
RankState state_of(const std::vector<Stage*>& stages);

// Selects ("exp_avg/NAME", tensor) for the state's own parameters.
NamedTensors optimizer_state_of(const RankState& state, const NamedTensors& all);

}  // namespace sluice
