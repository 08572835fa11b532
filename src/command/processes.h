// Runs a command in one or several processes. Call the functions from the main thread. Threads may
// use different entries of a PerRank.
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
  int num_ranks = 1;
  std::vector<int> here;  // local ranks, ascending
  int on_machine = 1;
  at::Device device = at::kCPU;
  std::string why_device;                             // why `device` was chosen, or ""
  TransportKind transport = TransportKind::kThreads;  // never kAuto
  std::function<std::vector<std::unique_ptr<Transport>>()> connect;
  // `cause` returns the error on which all live processes agree after a failure. `tells` returns
  // whether this process reports it.
  std::function<Error(const Error&)> cause = [](const Error& own) { return own; };
  std::function<bool()> tells = [] { return true; };
  // Unique, and equal in all processes of the run.
  std::string name = unique_suffix();
  // True with several processes. Others may then keep running after an error here.
  bool has_others = false;
  std::function<void(int rank, const std::string& what, const std::string& remedy)> report_hung;
  // Call when all ranks have finished a step, so that timeouts for steps apply.
  std::function<void()> steps_begin = [] {};

  bool has(int rank) const;
  bool has_rank_zero() const { return has(kRankZero); }
  int threads_per_rank(std::int64_t configured) const;
  // Memory of this machine. Not limited for GPUs, whose limit is Plan::memory_per_rank.
  std::int64_t memory_bytes() const;
};

LocalRanks ranks_of(ProcessJob& job, int num_ranks);

template <typename T>
class PerRank {
 public:
  explicit PerRank(const LocalRanks& ranks) {
    for (const int rank : ranks.here) of_rank_[rank];
  }
  T& at(int rank) { return of_rank_.at(rank); }
  const T& at(int rank) const { return of_rank_.at(rank); }
  auto begin() const { return of_rank_.begin(); }
  auto end() const { return of_rank_.end(); }

 private:
  std::map<int, T> of_rank_;
};

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

// If `call` throws in any process, all processes agree on one cause. One process throws it as
// Error, and the others throw ReportedElsewhere.
void run_with_shared_errors(ProcessJob& processes, const std::function<void()>& call);

// Collective over all processes. The first process measures what the plan needs and sends it to the
// others. Throws like measure_machine(), and Error(kPeer).
MeasuredMachine measure_and_broadcast(const RunConfig& config, ProcessJob& processes);

}  // namespace sluice
