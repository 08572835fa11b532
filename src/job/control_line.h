// A connection that shows the job's server that a process is alive, and reports the job's first
// failure to the process. If it ends without finish(), or is silent for longer than the heartbeat,
// the process is lost. Processes judge the server by the same rule. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job_failure.h"
#include "job/store_client.h"

namespace sluice {

struct ControlLineOptions {
  int process = 0;
  std::string name;  // "process 1 (ranks 2, 3), pid 4711 on node7"
  std::vector<int> ranks;
  std::chrono::milliseconds heartbeat{5000};
  std::chrono::milliseconds connect_timeout{10'000};
  // Optional. Returns what this process waits for: "rank 0 waits for 1RECV_B3 of step 4 from rank
  // 2", or "". Called often, so it must not block.
  std::function<std::string()> status;
  // Called once, on the line's thread.
  std::function<void(const JobFailure&)> on_failure;
  // Optional. Called on the line's thread.
  std::function<void(const std::string&)> on_warning;
  // The processes of this machine. One of them reports a lost server, because reports of other
  // machines may not be seen here.
  int first_here = 0;
  int num_here = 1 << 20;
};

class ControlLine {
 public:
  ControlLine(const StoreAddress& address, const std::string& secret, ControlLineOptions options);
  ~ControlLine();
  ControlLine(const ControlLine&) = delete;
  ControlLine& operator=(const ControlLine&) = delete;

  // Sends a failure to all processes, unless another came first. Does not block.
  void report(const JobFailure& failure) noexcept;
  // Warns the user of a hung rank; the run continues. `what` and `remedy` are those of an Error.
  // Does not block.
  void report_hung(int rank, const std::string& what, const std::string& remedy) noexcept;
  // Returns std::nullopt if no process fails within `patience`.
  std::optional<JobFailure> wait_for_failure(std::chrono::milliseconds patience);
  bool has_lost_server() const;
  // Ends the line without a failure. Must not be called from on_failure.
  void finish() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
