// The state of a rank, from its stages.
// Thread-safety: one rank's thread.
#pragma once

#include <vector>

#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Parameters, buffers and ties of a rank's stages; of a parameter that is divided what it holds.
RankState state_of(const std::vector<Stage*>& stages);

// The entries {"exp_avg/NAME", tensor} of `all` that are of the state's own parameters.
NamedTensors optimizer_state_of(const RankState& state, const NamedTensors& all);

}  // namespace sluice
