#pragma once

#include <vector>

#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"

namespace sluice {

// Tensor-parallel parameters have only this rank's slices.
RankState state_of(const std::vector<Stage*>& stages);

// Returns the optimizer state ("exp_avg/NAME", tensor) of the parameters in `state`.
NamedTensors optimizer_state_of(const RankState& state, const NamedTensors& all);

}  // namespace sluice
