// Ranks as threads of this process.
//
// Owns: the threads, their number of intra-op threads, and what becomes of a failure.
// Does not own: the endpoints, what a rank does.
// Thread-safety: run_ranks is called from one thread; it returns when every rank has ended.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sluice/parts/observers.h"
#include "sluice/parts/transport.h"

namespace sluice {

// threads_per_rank if above 0, else the cores of this machine divided among all the ranks on it, in
// whatever processes they are; at least 1.
int resolve_threads_per_rank(int threads_per_rank, int ranks_on_machine);

// Runs fn(*endpoint) on a thread of its own for every endpoint: the ranks of this process, which
// need not be all. threads_per_rank: of each rank's operators. ledger (may be null): the thread's
// tensor allocations count for its rank. Throws Error(kUsage) for less than one thread a rank.
//
// An exception of fn aborts the transport with its message, so that the other ranks are woken and
// end. When all have ended, throws one Error with the first failure's kind and message. What is no
// sluice::Error becomes one: kMemory when memory or threads ran out, else kInternal naming the
// rank.
void run_ranks(const std::vector<std::unique_ptr<Transport>>& endpoints, int threads_per_rank,
               MemoryLedger* ledger, const std::function<void(Transport&)>& fn);

}  // namespace sluice
