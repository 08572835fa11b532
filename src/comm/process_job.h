// Connects this process to the other processes of a run, and propagates the first failure: a
// failure in any process ends every wait in all of them. A process that has all ranks needs no
// connection. connect() and agreed() are for one thread; failures arrive on another thread.
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
  // Lines "what = value" that must be equal in all processes.
  std::string alike;
  TransportKind transport = TransportKind::kAuto;
  DeviceKind device = DeviceKind::kCpu;  // each rank uses its own, by local rank
  // Limit for connecting, and for waits before steps_begin().
  std::chrono::milliseconds init_timeout{300'000};
  // Limit for waits afterwards.
  std::chrono::milliseconds deadline{100'000};
  std::chrono::milliseconds heartbeat{5'000};
};

class ProcessJob {
 public:
  // All processes must call this together. Throws Error(kUsage) if the ranks cannot be divided
  // evenly, devices are missing, or requested NCCL is unavailable, and the errors of join_job(). If
  // the processes' options differ, all of them throw Error(kUsage), here or from connect().
  ProcessJob(LaunchEnvironment environment, const ProcessJobOptions& options);
  // After finish(), later failures of others have no effect.
  ~ProcessJob();
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  const LaunchEnvironment& environment() const;
  std::vector<int> ranks_here() const;
  int ranks_on_machine() const;  // of all processes on it
  const RankDevices& devices()
      const;  // of ranks_here(); `why` also names the transport if NCCL is possible

  // kThreads, kGloo or kNccl.
  TransportKind transport() const;

  // Makes new endpoints for the local ranks. All processes must call it equally often. Throws the
  // job's first failure, or Error(kPeer) if other processes do not come.
  std::vector<std::unique_ptr<Transport>> connect();

  // Warns the user of a hung rank while the run goes on. `what` and `remedy` are those of an Error.
  // Thread-safe.
  void report_hung(int rank, const std::string& what, const std::string& remedy) noexcept;
  // Switches to the deadline of steps. With a single process only later endpoints use it.
  // Thread-safe.
  void steps_begin();
  // Unique name of this job, equal in all processes.
  const std::string& name() const;

  // Reports `own` and returns the failure on which all living processes agree. Waits briefly.
  Error agreed(const Error& own) noexcept;
  // True if this process must print the failure.
  bool tells() const;
  // The run has ended well. If this process serves the store, it waits for the others when it
  // exits.
  void finish() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
