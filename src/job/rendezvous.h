// Lets the processes of a run meet at one store.
//
//  launcher            store served by   address and secret from
//  sluice launch       the launcher      environment
//  torchrun            process 0         torchrun's store (trusted network)
//  one machine         process 0         a private file, named by the job or by
//                                        MASTER_ADDR and MASTER_PORT
//  several machines    process 0         MASTER_ADDR and MASTER_PORT, or srun's first
//                                        host; SLUICE_JOB_SECRET
//
// A second job with the same name waits until the first has met.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "job/launch_environment.h"
#include "job/store_client.h"
#include "job/store_server.h"

namespace sluice {

// Passes a text between torchrun's processes through torchrun's store.
class NoticeBoard {
 public:
  virtual ~NoticeBoard() = default;
  virtual void put(const std::string& text) = 0;
  virtual std::string get(std::chrono::milliseconds timeout) = 0;  // waits for put()
};

struct JobStore {
  StoreAddress address;
  std::string secret;
  std::unique_ptr<StoreServer> server;
};

// `board` is for torchrun. Throws Error(kUsage) if a secret is missing or two processes have the
// same number, and Error(kPeer) naming those that do not join within `timeout`.
JobStore join_job(const LaunchEnvironment& environment, std::chrono::milliseconds timeout,
                  NoticeBoard* board = nullptr);

// Set in the store once the process has joined.
std::string arrival_key(int process);

void warn_of_short_secret(const std::string& secret);

// Listens on all addresses unless `at` is loopback. Throws Error(kUsage) if the port is taken.
std::unique_ptr<StoreServer> serve_at(const StoreAddress& at, StoreServerOptions options);

}  // namespace sluice
