// The server of a job's store: keys and values, and who of the processes lives.
//
// Owns: the listening socket, the values, the judgement of lost processes.
//
// Invariants:
//  1. Whoever does not know the secret gets a random number and the end of the connection, costs
//     bounded memory, and cannot keep others out.
//  2. The first failure wins, and is told to every control line, also to those that come later.
// Thread-safety: any thread may call anything.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "launch/job_failure.h"
#include "launch/store_client.h"

namespace sluice {

struct StoreServerOptions {
  std::string host = "127.0.0.1";  // the address to listen on; "" for all
  int port = 0;                    // 0: a free one
  std::string secret;
  // How long the end of a line waits for somebody who knows more (a launcher, of the exit status)
  // before it is judged.
  std::chrono::milliseconds grace{0};
};

class StoreServer {
 public:
  // Throws Error(kUsage) when the port is taken, Error(kPeer) otherwise.
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  StoreAddress address() const;  // to connect to
  // As a control line's report.
  void report(const JobFailure& failure) noexcept;
  std::optional<JobFailure> failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
