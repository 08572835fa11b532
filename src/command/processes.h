// A command's run in one process or several.
//
// Owns: the one place that decides which ranks are threads of this process, values by rank,
// settings of the connection, failures that all processes end with and of which one tells the user,
// and the one answer for all of them to what the plan has to know of the machine. Does not own:
// threads (rank_threads.h), messages (transport.h), the processes (comm/process_job.h).
// Thread-safety: const members may be called from any thread; different ranks' entries of a PerRank
// may be used by different threads; functions are for the main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "comm/gather_messages.h"
#include "comm/process_job.h"
#include "config/run_config.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct LocalRanks {
  int num_ranks = 1;             // number of ranks of the run, in all processes
  std::vector<int> here;         // ranks of this process, ascending
  int on_machine = 1;            // ranks of all processes on this machine: they share its cores
  at::Device device = at::kCPU;  // device of the first rank here
  std::string why_device;        // reason for the log; "": nothing to report
  TransportKind transport = TransportKind::kThreads;  // not kAuto
  // Endpoints of the ranks here; new ones are made after a failure.
  std::function<std::vector<std::unique_ptr<Transport>>()> connect;
  // The cause that all processes which live take for a failure here, and whether this one is to
  // tell the user.
  std::function<Error(const Error&)> cause = [](const Error& own) { return own; };
  std::function<bool()> tells = [] { return true; };
  // Name of the run, the same in all of its processes and no other run's.
  std::string name = unique_suffix();
  // There are others, which may not hear of an error before this process ends.
  bool has_others = false;
  // A rank here hangs, and the run waits on; where there are others, one process tells the user.
  std::function<void(int rank, const std::string& what, const std::string& remedy)> report_hung;
  // Rank 0 and all others have made a step: the waits from now on are those of steps.
  std::function<void()> steps_begin = [] {};

  bool has(int rank) const;
  bool has_speaker() const { return has(kRankZero); }
  // Threads of each rank's operators: training.threads_per_rank, or its share of the machine's
  // cores.
  int threads_per_rank(std::int64_t configured) const;
  // The memory that the ranks on this machine share: none where each has a device of its own, whose
  // memory is Plan::memory_per_rank.
  std::int64_t memory_bytes() const;
};

// The ranks of this process in its job, which must outlive it.
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

// The value that every rank here came to. Throws Error(kInternal) when they differ.
template <typename T>
const T& agreed(const PerRank<T>& values, const std::string& what) {
  const auto& [first_rank, first] = *values.begin();
  for (const auto& [rank, value] : values) {
    if (value == first) continue;
    throw Error(ErrorKind::kInternal,
                {.what = formatted("ranks {} and {} disagree on {}", first_rank, rank, what)});
  }
  return first;
}

// Throws Error(kUsage) for a transport that does not fit the processes.
ProcessJobOptions job_options(const RunConfig& config, int num_ranks);

// Calls `call`. Its exception is sent to all processes and becomes the cause for all of them: an
// Error in the one that reports to the user, ToldElsewhere in the others.
void told_to_all(ProcessJob& processes, const std::function<void()>& call);

// Collective over the processes, which have to make the same plan: the first measures the numbers
// that the plan needs (depends_on_machine()), the others get them. Throws what measure_machine()
// throws, and Error(kPeer).
MeasuredMachine measured_once(const RunConfig& config, ProcessJob& processes);

}  // namespace sluice
