// A run that cannot fit is refused: the system gives memory that it does not have, and kills who
// uses it without a word.
//
// Owns: what the machine has, the least that a run needs. Does not own: predictions for people
// (plan.h). Thread-safety: pure functions, but for reading the system's files.
#pragma once

#include <cstdint>

#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {

// Memory and swap of this machine, or of the container around this process if that has less, or
// what `ulimit -v` leaves.
std::int64_t machine_memory_bytes();

// A lower bound for all ranks together, which are threads of one process: weights, gradients and
// the optimizer's state, and the logits of one microbatch.
std::int64_t least_memory_bytes(const RunConfig& config, const Plan& plan);

// Throws Error(kMemory) when the second is more than `machine_bytes`.
void require_memory(const RunConfig& config, const Plan& plan, std::int64_t machine_bytes);

}  // namespace sluice
