// Finds where a step first produced a value that is not finite.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "sluice/parts/group.h"
#include "sluice/program.h"

namespace sluice {

// Collective over all ranks. Runs the step again while checking every value, and throws the same
// Error(kNotFinite) on every rank. The error names the step, the stage, the value or parameter, and
// the microbatch of the first place. Forward comes before backward, then lower replicas come first.
// In forward the lowest microbatch is first, then the lowest stage. In backward the microbatch
// whose backward starts first is first, then the highest stage. norms: gradient norms of the
// parameters, where known.
[[noreturn]] void throw_not_finite(Executor& executor, const Group& world, const Program& program,
                                   const StepBatch& batch,
                                   const std::vector<std::pair<std::string, double>>& norms);

}  // namespace sluice
