// The server of a job's store. It holds keys and values, and decides which processes are lost.
// Thread-safe.
//
// Unauthenticated connections end after 2 seconds, and above 128 the oldest is closed. The server
// sends the first failure to every control line, present or future, and ends clients' waits. While
// a process whose line has ended may still turn out lost, it ignores kPeer reports from others,
// which only follow from that loss.
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
  // How long the server waits for report_end() after a process's control line has ended.
  std::chrono::milliseconds grace{0};
  // The process that runs the server, -1 if outside the job. Messages about a lost server show
  // `name`.
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
  // Reports that a process has ended. `how` follows its name in the message: "was ended by signal 9
  // (Killed)". `has_reported`: a process without a control line has printed the error itself. No
  // effect after finish().
  void report_end(int process, const std::string& how, bool has_reported = false) noexcept;
  std::optional<JobFailure> failure() const;
  bool has(const std::string& key) const;
  // Returns the failure message if this process was lost.
  std::optional<std::string> loss_of(int process) const;
  // Returns the last address refused for a wrong secret, or "" if none was or it has connected
  // since.
  std::string refused() const;
  // Waits until all control lines have ended. Returns false after `timeout`.
  bool wait_for_lines(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
