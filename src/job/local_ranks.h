// Which ranks of a run are threads of this process: the one place that decides it.
//
// Owns: the value, and values by rank. Does not own: threads (rank_threads.h), messages
// (transport.h). Thread-safety: const members may be called from any thread; different ranks'
// entries of a PerRank may be used by different threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/process_job.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {

// The rank whose process prints, warns and writes metrics.
inline constexpr int kSpeaker = 0;

struct LocalRanks {
  int num_ranks = 1;      // of the run, in all processes
  std::vector<int> here;  // of this process, ascending
  int on_machine = 1;     // of all processes on this machine: they share its cores
  // Endpoints of the ranks here; new ones are made after a failure.
  std::function<std::vector<std::unique_ptr<Transport>>()> connect;
  // What all processes that live take for the cause of a failure here, and whether this one is to
  // tell the user.
  std::function<Error(const Error&)> cause = [](const Error& own) { return own; };
  std::function<bool()> tells = [] { return true; };
  // Of the run, the same in all of its processes and no other run's.
  std::string name = unique_suffix();
  // There are others, which may not hear of an error before this process ends.
  bool has_others = false;
  // A rank here hangs, and the run waits on; where there are others, one process tells the user.
  std::function<void(int rank, const std::string& what, const std::string& remedy)> report_hung;
  // Rank 0 and all others have made a step: the waits from now on are those of steps.
  std::function<void()> steps_begin = [] {};

  bool has(int rank) const;
  bool has_speaker() const { return has(kSpeaker); }
  // Of each rank's operators: training.threads_per_rank, or its share of the machine's cores.
  int threads_per_rank(std::int64_t configured) const;
};

// All ranks are threads of this process.
LocalRanks all_ranks_here(int num_ranks, const TransportOptions& options);
// Those of this process in its job, which must outlive it.
LocalRanks ranks_of(ProcessJob& job, int num_ranks);

// A T for every rank that is here.
template <typename T>
class PerRank {
 public:
  explicit PerRank(const LocalRanks& ranks) {
    for (const int rank : ranks.here) of_rank_[rank];
  }
  // Precondition: the rank is here.
  T& at(int rank) { return of_rank_.at(rank); }
  const T& at(int rank) const { return of_rank_.at(rank); }
  auto begin() const { return of_rank_.begin(); }  // of pairs {rank, T}
  auto end() const { return of_rank_.end(); }

 private:
  std::map<int, T> of_rank_;
};

// What every rank here came to. Throws Error(kInternal) when they came to different things.
template <typename T>
const T& agreed(const PerRank<T>& values, const std::string& what) {
  const auto& [first_rank, first] = *values.begin();
  for (const auto& [rank, value] : values) {
    if (value == first) continue;
    throw Error(ErrorKind::kInternal, {.what = "ranks " + std::to_string(first_rank) + " and " +
                                               std::to_string(rank) + " disagree on " + what});
  }
  return first;
}

}  // namespace sluice
