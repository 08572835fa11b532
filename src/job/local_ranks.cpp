#include "job/local_ranks.h"

#include <algorithm>
#include <numeric>

#include "run/rank_threads.h"

namespace sluice {

bool LocalRanks::has(int rank) const {
  return std::find(here.begin(), here.end(), rank) != here.end();
}

int LocalRanks::threads_per_rank(std::int64_t configured) const {
  return resolve_threads_per_rank(static_cast<int>(configured), on_machine);
}

LocalRanks all_ranks_here(int num_ranks, const TransportOptions& options) {
  LocalRanks ranks;
  ranks.num_ranks = ranks.on_machine = num_ranks;
  ranks.here.resize(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.here.begin(), ranks.here.end(), 0);
  ranks.connect = [num_ranks, options] { return make_local_transports(num_ranks, options); };
  return ranks;
}

LocalRanks ranks_of(ProcessJob& job, int num_ranks) {
  LocalRanks ranks;
  ranks.num_ranks = num_ranks;
  ranks.here = job.ranks_here();
  ranks.on_machine = job.ranks_on_machine();
  ranks.connect = [&job] { return job.connect(); };
  ranks.cause = [&job](const Error& own) { return job.agreed(own); };
  ranks.tells = [&job] { return job.tells(); };
  ranks.has_others = job.environment().layout.num_processes > 1;
  if (ranks.has_others) {
    ranks.name = job.name();
    ranks.report_hung = [&job](int rank, const std::string& what, const std::string& remedy) {
      job.report_hung(rank, what, remedy);
    };
  }
  ranks.steps_begin = [&job] { job.steps_begin(); };
  return ranks;
}

}  // namespace sluice
