#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "sluice/parts/group.h"
#include "sluice/program.h"

namespace sluice {

// Finds where a loss or gradient norm became non-finite. Collective over all ranks. Runs the step
// again with checks and throws the same Error(kNotFinite), with the first non-finite value, on
// every rank. Forward precedes backward, then lower replicas come first. Then forward values are in
// order of microbatch and stage, backward values in backward order and descending stage. norms:
// known gradient norms of parameters.
[[noreturn]] void throw_not_finite(Executor& executor, const Group& world, const Program& program,
                                   const StepBatch& batch,
                                   const std::vector<std::pair<std::string, double>>& norms);

}  // namespace sluice
