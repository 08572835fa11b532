// Checks before a run that its predicted memory fits into the machine. Linux grants more memory
// than it has and later kills the process without a message, so the check must come first.
// own: the prediction (plan.h). Thread-safety: pure functions, but for reading the system's files.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice {

// Memory and swap of this machine in bytes. Less if a container or `ulimit -v` limits this process.
std::int64_t machine_memory_bytes();

// Returns Error(kMemory) if one rank's peak exceeds Plan::memory_per_rank. Also returns it if the
// peaks of all ranks on this machine exceed `machine_bytes` by more than the prediction error.
// ranks_here is the number of the run's ranks on this machine (default: all). They count as average
// ranks.
std::optional<Error> memory_shortage(const Plan& plan, std::int64_t machine_bytes,
                                     std::optional<int> ranks_here = {});

// Throws the error that memory_shortage() returns.
void require_memory(const Plan& plan, std::int64_t machine_bytes,
                    std::optional<int> ranks_here = {});

}  // namespace sluice
