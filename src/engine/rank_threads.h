#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sluice/parts/observers.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Returns threads_per_rank if above 0, otherwise the machine's cores divided by its ranks, at least
// 1.
int resolve_threads_per_rank(int threads_per_rank, int ranks_on_machine);

// Runs fn(*endpoint) on its own thread for every endpoint, until all have ended. Other processes
// may run more ranks. ledger: counts each rank's tensor allocations, or null. Throws Error(kUsage)
// if threads_per_rank is below 1.
//
// An exception of fn aborts the transport, which wakes the other ranks. When all threads have
// ended, throws an Error with the first failure's kind and message. Other exceptions become kMemory
// if memory or threads ran out, otherwise kInternal with the rank.
void run_ranks(const std::vector<std::unique_ptr<Transport>>& endpoints, int threads_per_rank,
               MemoryLedger* ledger, const std::function<void(Transport&)>& fn);

}  // namespace sluice
