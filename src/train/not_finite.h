#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "sluice/parts/group.h"
#include "sluice/program.h"

namespace sluice {

// Collective over all ranks, after a loss or norm that is not finite. Runs the step again with
// checks and throws the same Error(kNotFinite) on every rank, naming the first place. Forward
// precedes backward, then lower replicas come first. Forward places are ordered by microbatch, then
// stage. Backward places are ordered by the microbatches' backward order, then descending stage.
// norms: of the parameters, where known.
[[noreturn]] void throw_not_finite(Executor& executor, const Group& world, const Program& program,
                                   const StepBatch& batch,
                                   const std::vector<std::pair<std::string, double>>& norms);

}  // namespace sluice
