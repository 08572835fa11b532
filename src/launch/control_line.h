// A process's line to the server of its job: it reports that the process lives, and receives the
// first failure of all processes.
//
// Owns: its connection and the thread that serves it.
//
// Invariants:
//  1. The server counts a process as lost when its line ends without finish(), or is silent for
//     longer than the heartbeat; a process counts the server as lost likewise. Time in which the
//     judge itself was stopped does not count. A server that is destroyed reports it: no failure.
//  2. The first failure wins: every line receives the same one, once. A process that loses the
//     server reports its own failure, identical for all that lose it.
// Thread-safety: any thread may call anything.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/job_failure.h"
#include "launch/store_client.h"

namespace sluice {

struct ControlLineOptions {
  int process = 0;
  std::string name;  // "process 1 (ranks 2, 3), pid 4711 on node7": how it is named when it is lost
  std::vector<int> ranks;  // ranks of this process; waits of others for these are reported
  std::chrono::milliseconds heartbeat{5000};
  std::chrono::milliseconds connect_timeout{10'000};
  // The current waits of this process's ranks ("rank 0 waits for 1RECV_B3 of step 4 from rank 2",
  // several with commas between), "" for nothing: sent with every beat, and told when another
  // process is lost. Called on the line's thread, several times a heartbeat; may not wait. May be
  // empty.
  std::function<std::string()> status;
  // Called once, on the line's thread, with the first failure of all processes.
  std::function<void(const JobFailure&)> on_failure;
  // Called on the line's thread with what this process is to warn the user of. May be empty.
  std::function<void(const std::string&)> on_warning;
  // The processes of this machine: one of them tells the user where the server is lost, which may
  // be all that is left of the job's other machines for those here.
  int first_here = 0;
  int num_here = 1 << 20;
};

class ControlLine {
 public:
  ControlLine(const StoreAddress& address, const std::string& secret, ControlLineOptions options);
  // Without finish() before it: counts as lost.
  ~ControlLine();
  ControlLine(const ControlLine&) = delete;
  ControlLine& operator=(const ControlLine&) = delete;

  // Tells all processes, unless another failure came first. Returns without waiting.
  void report(const JobFailure& failure) noexcept;
  // A rank of this process hangs, and the run waits on: one of the processes that live warns the
  // user, and says who waits for it. what, remedy: as of an Error. Returns without waiting.
  void report_hung(int rank, const std::string& what, const std::string& remedy) noexcept;
  // The first failure of all processes, if it is heard of within `patience`.
  std::optional<JobFailure> wait_for_failure(std::chrono::milliseconds patience);
  // The server was lost: it has ended without a word, or is silent.
  bool has_lost_server() const;
  // This process ends, and that is no failure. The line is silent afterwards. Not to be called by
  // on_failure.
  void finish() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
