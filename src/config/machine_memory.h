// Checks the predicted memory before a run, because Linux grants more memory than it has and later
// kills the process.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {

// Returns memory and swap in bytes, limited by the container and `ulimit -v`.
std::int64_t machine_memory_bytes();

// Returns Error(kMemory) if a rank's predicted peak exceeds Plan::memory_per_rank, or if the peaks
// on this machine together exceed `machine_bytes` by more than the prediction's error. ranks_here:
// number of ranks on this machine (default: all).
std::optional<Error> memory_shortage(const Plan& plan, std::int64_t machine_bytes,
                                     std::optional<int> ranks_here = {});

void require_memory(const Plan& plan, std::int64_t machine_bytes,
                    std::optional<int> ranks_here = {});

}  // namespace sluice
