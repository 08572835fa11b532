// The meeting of a run's processes at one store.
//
// Where                           who serves it        how the others learn address and secret
// sluice launch                   the launcher         environment
// torchrun                        process 0            torchrun's own store (trusted network)
// one machine: srun, mpirun, by   process 0            a file that only this user can read, named
//   hand                                               by job or by MASTER_ADDR and MASTER_PORT;
//                                                      there until all have come
// several machines                process 0, at        MASTER_ADDR and MASTER_PORT, or the first
//                                 MASTER_ADDR          host of srun's list; the secret follows
//                                                      from SLUICE_JOB_SECRET
//
// Owns: the server, in the process that serves.
//
// Invariants:
//  1. Two jobs at once on one machine do not meet, unless they are given the same name; then the
//     second waits until the first has met.
//  2. What a job that was killed has left behind confuses nobody.
// Thread-safety: one thread a process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "launch/launch_environment.h"
#include "launch/store_client.h"
#include "launch/store_server.h"

namespace sluice {

// The place where torchrun's processes leave each other a line: implemented on its store.
class NoticeBoard {
 public:
  virtual ~NoticeBoard() = default;
  virtual void put(const std::string& text) = 0;
  virtual std::string get(std::chrono::milliseconds timeout) = 0;  // waits for put()
};

struct JobStore {
  StoreAddress address;
  std::string secret;
  std::unique_ptr<StoreServer> server;  // in the process that serves it
};

// Collective over the processes: returns when all have come. board: for torchrun, else null. Throws
// Error(kUsage) for what is missing (a secret for several machines) and for two processes of one
// number, Error(kPeer) naming those who do not come within `timeout`.
JobStore join_job(const LaunchEnvironment& environment, std::chrono::milliseconds timeout,
                  NoticeBoard* board = nullptr);

// The key that is in the job's store once this process has come.
std::string arrival_key(int process);

// A secret that can be guessed is warned of.
void warn_of_short_secret(const std::string& secret);

// The server of several machines: at `at`, or, where that name means none of this machine's
// addresses, at all of them. Throws Error(kUsage) when the port is taken.
std::unique_ptr<StoreServer> serve_at(const StoreAddress& at, StoreServerOptions options);

}  // namespace sluice
