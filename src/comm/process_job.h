// Connects this process to the others of a run. A failure in any process ends every wait in all of
// them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/transport_kind.h"
#include "device/device.h"
#include "job/job_failure.h"
#include "job/launch_environment.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct ProcessJobOptions {
  int num_ranks = 1;
  // Lines "name = value" that must be equal in all processes.
  std::string alike;
  TransportKind transport = TransportKind::kAuto;
  DeviceKind device = DeviceKind::kCpu;  // each rank uses the device with its local rank
  // Time limit of waits before steps_begin().
  std::chrono::milliseconds init_timeout{300'000};
  // Time limit of waits after steps_begin().
  std::chrono::milliseconds deadline{100'000};
  std::chrono::milliseconds heartbeat{5'000};
};

class ProcessJob {
 public:
  // Collective over the processes. Throws the errors of join_job(), and Error(kUsage) if ranks
  // cannot be divided evenly, devices are missing, requested NCCL is unavailable, or (here or from
  // connect()) `options` differ between processes.
  ProcessJob(LaunchEnvironment environment, const ProcessJobOptions& options);
  // After finish(), failures of other processes have no effect.
  ~ProcessJob();
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  const LaunchEnvironment& environment() const;
  std::vector<int> ranks_here() const;
  int ranks_on_machine() const;
  const RankDevices& devices() const;  // RankDevices::why also names the transport

  TransportKind transport() const;

  // Collective over the processes. Throws the job's first failure, or Error(kPeer) if processes are
  // missing.
  std::vector<std::unique_ptr<Transport>> connect();

  // See ControlLine::report_hung(). Thread-safe.
  void report_hung(int rank, const std::string& what, const std::string& remedy) noexcept;
  // From now on, `deadline` limits waits. Thread-safe.
  void steps_begin();
  const std::string& name() const;

  // Reports the error `own` and returns the failure on which all living processes agree. Waits
  // briefly.
  Error agreed(const Error& own) noexcept;
  bool tells() const;
  // Call at a regular end. If this process serves the store, its exit will wait for the others.
  void finish() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
