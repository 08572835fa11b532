// The check that a run fits into memory: the system grants memory that it does not have, and kills
// the process that uses it without a message.
//
// Owns: the memory of the machine, and the comparison of a plan's predicted peaks with it. Does not
// own: the prediction (plan.h). Thread-safety: pure functions, but for reading the system's files.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {

// Memory and swap of this machine, or of the container around this process if that has less, or
// what `ulimit -v` leaves.
std::int64_t machine_memory_bytes();

// Error(kMemory) when a rank's peak is above Plan::memory_per_rank, or when the peaks of the ranks
// on this machine together are more than `machine_bytes`, by more than the prediction may be wrong.
// ranks_here: number of the run's ranks on this machine, counted as average ones; all, unless
// given.
std::optional<Error> memory_shortage(const Plan& plan, std::int64_t machine_bytes,
                                     std::optional<int> ranks_here = {});

// Throws it.
void require_memory(const Plan& plan, std::int64_t machine_bytes,
                    std::optional<int> ranks_here = {});

}  // namespace sluice
