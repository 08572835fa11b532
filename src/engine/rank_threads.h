// Runs ranks as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sluice/parts/observers.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Returns threads_per_rank if it is above 0. Otherwise divides the cores among all ranks on this
// machine, over all processes. At least 1.
int resolve_threads_per_rank(int threads_per_rank, int ranks_on_machine);

// Runs fn(*endpoint) on its own thread for every endpoint, and returns when all have ended. The
// endpoints may be some of the ranks. threads_per_rank: threads for each rank's operators. ledger:
// may be null; counts each thread's tensor allocations for its rank. Throws Error(kUsage) if
// threads_per_rank is below 1.
//
// If fn throws, the transport is aborted with the message, which wakes the other ranks. After all
// have ended, run_ranks throws an Error with the kind and message of the first failure. Other
// exceptions become kMemory if memory or threads ran out, or kInternal with the rank.
void run_ranks(const std::vector<std::unique_ptr<Transport>>& endpoints, int threads_per_rank,
               MemoryLedger* ledger, const std::function<void(Transport&)>& fn);

}  // namespace sluice
