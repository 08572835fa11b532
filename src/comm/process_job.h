// This process among those of a run: how they find each other, and what ends them together.
//
// Owns: the store's server where this process serves it (for later jobs of the process, too), the
// connection to the store, the control line, and the knowledge of the first failure of all
// processes. Does not own: what the ranks do, what is printed.
//
// A process that is alone has all ranks, and needs none of this: its endpoints are those of
// threads, or, with kGloo, as those of processes.
//
// Invariants:
//  1. A failure in any process ends every wait of every rank, in all of them; agreed() is the same
//     in all that live.
//  2. connect() is collective over the processes, the k-th call of each being one.
// Thread-safety: one thread a process; failures arrive on a thread of their own.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/transport_kind.h"
#include "device/device.h"
#include "launch/job_failure.h"
#include "launch/launch_environment.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct ProcessJobOptions {
  int num_ranks = 1;  // of the run
  // Lines "what = value" that have to be the same in all processes, beside the number of ranks.
  std::string alike;
  TransportKind transport = TransportKind::kAuto;
  DeviceKind device = DeviceKind::kCpu;  // of the ranks: each its own, by its local rank
  // Time for connecting, and for every wait of the ranks, until steps_begin().
  std::chrono::milliseconds init_timeout{300'000};
  // Time for every wait afterwards.
  std::chrono::milliseconds deadline{100'000};
  std::chrono::milliseconds heartbeat{5'000};
};

class ProcessJob {
 public:
  // Collective over the processes of the environment. Throws Error(kUsage) when they do not divide
  // the ranks or have too few devices for them, or NCCL is asked for and cannot be used, and what
  // join_job() throws. Error(kUsage) for what is not alike comes here or from connect(), in all
  // processes.
  ProcessJob(LaunchEnvironment environment, const ProcessJobOptions& options);
  // After finish(): no failure, whatever the others do then.
  ~ProcessJob();
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  const LaunchEnvironment& environment() const;
  std::vector<int> ranks_here() const;
  int ranks_on_machine() const;  // of all processes here
  const RankDevices& devices()
      const;  // of ranks_here(); `why` also says the transport, if NCCL may do

  // What carries the tensors of the ranks here: kThreads, kGloo or kNccl.
  TransportKind transport() const;

  // New endpoints of the ranks here. Throws the first failure of all processes, if there is one
  // that ended this run's way there, Error(kPeer) when the others do not come.
  std::vector<std::unique_ptr<Transport>> connect();

  // A rank here hangs, and the run waits on: one of several processes warns the user, and says who
  // waits for it. what, remedy: as of an Error. From any thread.
  void report_hung(int rank, const std::string& what, const std::string& remedy) noexcept;
  // From now on waits have the deadline of steps; of a process that is alone those of endpoints
  // that connect() makes later. From any thread.
  void steps_begin();
  // A name of this job that no other has, the same in all processes.
  const std::string& name() const;

  // The cause on which all living processes agree, after `own` has happened here; tells them. Waits
  // for them shortly.
  Error agreed(const Error& own) noexcept;
  // True if this process, of all that know the cause, tells the user.
  bool tells() const;
  // The run of this process ends well. Where the others need its server, the process waits for them
  // when it ends itself.
  void finish() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
