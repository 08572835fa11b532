// The place where a step that is not finite stopped being so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "sluice/parts/group.h"
#include "sluice/program.h"

namespace sluice {

// Collective over all ranks, after a loss or norm that is not finite: runs the step again under
// watch and throws, on every rank, one Error(kNotFinite) naming step, stage, value or parameter,
// and microbatch of the first place: forward before backward; the first replica; the smallest
// microbatch, then the smallest stage; in backward the first microbatch in backward order, then the
// largest stage. norms: of the parameters, where they are known.
[[noreturn]] void throw_not_finite(Executor& executor, const Group& world, const Program& program,
                                   const StepBatch& batch,
                                   const std::vector<std::pair<std::string, double>>& norms);

}  // namespace sluice
