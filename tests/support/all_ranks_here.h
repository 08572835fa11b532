// Puts every rank of a run on a thread of this process.
#pragma once

#include <numeric>

#include "command/processes.h"

namespace sluice::test {

inline LocalRanks all_ranks_here(int num_ranks, const TransportOptions& options = {}) {
  LocalRanks ranks;
  ranks.num_ranks = ranks.on_machine = num_ranks;
  ranks.here.resize(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.here.begin(), ranks.here.end(), 0);
  ranks.connect = [num_ranks, options] { return make_local_transports(num_ranks, options); };
  return ranks;
}

}  // namespace sluice::test
