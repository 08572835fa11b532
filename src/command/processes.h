// Runs a command in one or several processes. Only this file decides which ranks are threads of
// this process. Const members are thread-safe, and different threads may use different ranks'
// entries of a PerRank. Call the functions from the main thread.
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
  int num_ranks = 1;             // in all processes
  std::vector<int> here;         // ranks of this process, ascending
  int on_machine = 1;            // ranks on this machine, which share its cores
  at::Device device = at::kCPU;  // device of the first local rank
  std::string why_device;        // reason for the log, or ""
  TransportKind transport = TransportKind::kThreads;  // never kAuto
  // Creates endpoints for the local ranks. Call it again after a failure.
  std::function<std::vector<std::unique_ptr<Transport>>()> connect;
  // The error that all live processes agree on after a failure here, and whether this process
  // should report it.
  std::function<Error(const Error&)> cause = [](const Error& own) { return own; };
  std::function<bool()> tells = [] { return true; };
  // Unique name of the run, the same in all of its processes.
  std::string name = unique_suffix();
  // There are others, which may not hear of an error before this process ends.
  bool has_others = false;
  // Reports a hanging local rank while the run keeps waiting. With several processes, one of them
  // warns the user.
  std::function<void(int rank, const std::string& what, const std::string& remedy)> report_hung;
  // Call this when all ranks have finished a step. From then on the timeouts for steps apply.
  std::function<void()> steps_begin = [] {};

  bool has(int rank) const;
  bool has_speaker() const { return has(kRankZero); }
  // `configured` is training.threads_per_rank. 0 becomes a share of this machine's cores.
  int threads_per_rank(std::int64_t configured) const;
  // Memory that the ranks on this machine share. Unlimited if they use GPUs, because
  // Plan::memory_per_rank then limits each rank.
  std::int64_t memory_bytes() const;
};

// The local ranks. `job` must outlive them.
LocalRanks ranks_of(ProcessJob& job, int num_ranks);

// One T for every local rank.
template <typename T>
class PerRank {
 public:
  explicit PerRank(const LocalRanks& ranks) {
    for (const int rank : ranks.here) of_rank_[rank];
  }
  // The rank must be local.
  T& at(int rank) { return of_rank_.at(rank); }
  const T& at(int rank) const { return of_rank_.at(rank); }
  auto begin() const { return of_rank_.begin(); }  // pairs {rank, T}
  auto end() const { return of_rank_.end(); }

 private:
  std::map<int, T> of_rank_;
};

// The value that all local ranks share. Throws Error(kInternal) if they differ.
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

// Throws Error(kUsage) if the transport does not fit the number of processes.
ProcessJobOptions job_options(const RunConfig& config, int num_ranks);

// Calls `call`. If it throws in any process, all processes agree on one cause. The process that
// reports it throws an Error, and the others throw ToldElsewhere.
void told_to_all(ProcessJob& processes, const std::function<void()>& call);

// Collective over all processes, which must make the same plan. The first process measures the
// numbers that the plan needs (depends_on_machine()) and sends them to the others. Throws like
// measure_machine(), and Error(kPeer).
MeasuredMachine measured_once(const RunConfig& config, ProcessJob& processes);

}  // namespace sluice
