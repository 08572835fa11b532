// Starts the processes of a job, and restarts them after a failure. Call it before other threads
// start.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "job/store_client.h"

namespace sluice {

struct LaunchOptions {
  std::string program;
  std::vector<std::string> command;
  int processes = 1;       // per machine, the same on all
  bool must_join = false;  // exit code 0 without joining is a failure
  int max_restarts = 0;
  std::string log_folder;  // for rank_N.log files, "" for none
  // Machine 0 serves the store at `meeting`; all machines have the same `secret`.
  int num_nodes = 1;
  int node = 0;
  StoreAddress meeting;
  std::string secret;
  std::chrono::milliseconds meeting_timeout{300'000};
  // A machine is lost if its launcher is silent for longer.
  std::chrono::milliseconds heartbeat{5000};
  // After a failure, the other processes have this long until SIGTERM, and again until SIGKILL.
  std::chrono::milliseconds patience{5000};
};

// Returns the exit code of the first failed process, 128 + n for signal n, or 75 if the processes
// were stopped and have saved. Throws Error(kUsage) if the job cannot be started, and Error(kPeer)
// if other machines do not join.
int launch_job(const LaunchOptions& options);

}  // namespace sluice
