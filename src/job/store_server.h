// The server of a job's store: it holds keys and values, and decides which processes are lost.
// Thread-safe.
//
// Unauthenticated connections end after 2 seconds, and above 128 the oldest is closed. The first
// failure is sent to every control line, present or future, and ends clients' waits. Until an ended
// line counts as lost, kPeer reports are ignored as its consequences.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "job/job_failure.h"
#include "job/store_client.h"

namespace sluice {

struct StoreServerOptions {
  std::string host = "127.0.0.1";  // "" for all addresses
  int port = 0;                    // 0 for a free port
  std::string secret;
  // How long an ended control line waits for report_end().
  std::chrono::milliseconds grace{0};
  // -1 if the server is not a process of the job. `name` is shown if the server is lost.
  int process = -1;
  std::string name = "the launcher";
};

class StoreServer {
 public:
  // Throws Error(kUsage) if the port is taken, otherwise Error(kPeer).
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  StoreAddress address() const;
  void report(const JobFailure& failure) noexcept;
  // `how` follows the process's name: "was ended by signal 9 (Killed)". `has_reported`: a process
  // without a control line has printed the error itself. No effect after finish().
  void report_end(int process, const std::string& how, bool has_reported = false) noexcept;
  std::optional<JobFailure> failure() const;
  bool has(const std::string& key) const;
  // The message if this process was lost.
  std::optional<std::string> loss_of(int process) const;
  // The last address refused for a wrong secret, "" if none or if it has succeeded since.
  std::string refused() const;
  // False if control lines are left after `timeout`.
  bool wait_for_lines(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
