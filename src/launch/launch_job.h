// `sluice launch`: a job of processes of one program, started again after a failure if asked.
//
// Owns: the job's store, where this is machine 0, its secret, what the processes find in their
// environment, and the attempts. Does not own: the processes of an attempt (supervisor.h).
// Thread-safety: for the main thread, before it has started others.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/store_client.h"

namespace sluice {

struct LaunchOptions {
  std::string program;               // the file to execute
  std::vector<std::string> command;  // argv of every process
  int processes = 1;                 // on this machine, and on every other
  bool must_join = false;  // with several processes: one that ends well without joining has failed
  int max_restarts = 0;
  std::string log_folder;  // for rank_N.log of every process; "": no logs
  // Several machines: where machine 0 serves the store, and what all know.
  int num_nodes = 1;
  int node = 0;
  StoreAddress meeting;
  std::string secret;
  std::chrono::milliseconds meeting_timeout{300'000};
  // A launcher that is silent for longer counts as lost, with its machine.
  std::chrono::milliseconds heartbeat{5000};
  // Time for the others, after a failure: to end by themselves, and after SIGTERM.
  std::chrono::milliseconds patience{5000};
};

// Returns the exit code of the job: that of the process that failed first, 128 + n when signal n
// ended it, 75 when the processes were stopped and have saved. Throws Error(kUsage) for what cannot
// be started, Error(kPeer) when other machines do not come.
int launch_job(const LaunchOptions& options);

}  // namespace sluice
