// The server of a job's store: keys and values, and the list of living processes.
//
// Owns: the listening socket, the values, the judgement of lost processes, and one thread that
// serves all connections.
//
// Invariants:
//  1. A client that does not know the secret gets a random number and the end of the connection,
//     after 2 seconds at the latest; it costs some hundred bytes, and cannot keep others out: of
//     more than 128 such connections the oldest is ended.
//  2. The first failure wins, and is sent to every control line, also to those that come later, and
//     to every client that waits for a key. While the end of a line is known and not yet judged,
//     others' reports of kPeer are its consequence, and left out.
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
  // The time that the end of a line waits for a process that knows more (a launcher, of the exit
  // status) before it is judged.
  std::chrono::milliseconds grace{0};
  // The process of the job that serves, -1 for none of them, and how it is named when it is lost.
  int process = -1;
  std::string name = "the launcher";
};

class StoreServer {
 public:
  // Throws Error(kUsage) when the port is taken, Error(kPeer) otherwise.
  explicit StoreServer(StoreServerOptions options);
  // Reports to the lines that it ends, which is not a failure.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  StoreAddress address() const;  // to connect to
  // The same as a control line's report.
  void report(const JobFailure& failure) noexcept;
  // A process of the job has ended, says somebody who knows: `how` follows its name, as in "was
  // ended by signal 9 (Killed)". Nothing when it had finished its line. Unless another failure came
  // first. has_told: where it never had a line, it has told the user itself, so that nobody else
  // needs to.
  void report_end(int process, const std::string& how, bool has_told = false) noexcept;
  std::optional<JobFailure> failure() const;
  bool has(const std::string& key) const;
  // The report on this process, where its line was judged lost, be it the first failure or not.
  std::optional<std::string> loss_of(int process) const;
  // From where somebody came last who does not know the secret; "" where nobody has, or where who
  // came from there has shown since that it does.
  std::string refused() const;
  // Until every control line has finished or was lost. False after `timeout`.
  bool wait_for_lines(std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
