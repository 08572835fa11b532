// The processes of a job on this machine, from their start to their end.
//
// Owns: the processes. Does not own: the store that they meet at (it gets their ends), the decision
// to restart (launch_job.h).
//
// Invariants:
//  1. When run() returns or throws, all processes and whatever is left of their process groups have
//     ended. When the launcher is killed, the processes are.
//  2. SIGINT, SIGTERM and SIGHUP are one request to stop: within a second they are forwarded once,
//     as SIGTERM. One that comes later kills all.
//  3. After the first failure here, or the loss of a process anywhere, the others have `patience`
//     to end by themselves; then comes SIGTERM, then, as long after that, SIGKILL. A process that
//     the store's server has judged lost is killed as soon as all others have ended.
//  4. SIGTSTP and SIGCONT stop and continue the processes with the launcher.
// Thread-safety: for the main thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/child_process.h"
#include "launch/launch_signals.h"
#include "launch/output_merger.h"
#include "launch/store_server.h"

namespace sluice {

struct JobOutcome {
  int exit_code = 0;
  bool stopped = false;       // there was a request to stop
  std::string what;           // text of a failure: "process 1 was ended by signal 9 (Killed)"
  bool never_joined = false;  // true if the process that failed first never joined
};

class Supervisor {
 public:
  // True if a process of the job has come to its store.
  using HasJoined = std::function<bool(int process)>;

  // server: of the job's store, where this launcher serves it, else null. first_process: the number
  // in the job of the first process here. has_joined: where given, who ends well and has not joined
  // has failed, with the exit code of wrong usage.
  Supervisor(LaunchSignals& signals, StoreServer* server, int first_process,
             std::chrono::milliseconds patience, HasJoined has_joined = {});
  // Kills what is left.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Somebody knows that the job has lost a process, maybe one of another machine. From any thread.
  void process_was_lost() noexcept { lost_elsewhere_ = true; }
  // The next process of the job.
  void start(const ChildOptions& child);
  // Until all have ended.
  JobOutcome run();

 private:
  struct Child {
    pid_t pid = 0;
    bool lives = true;
    bool killed_here = false;  // by this supervisor, for another's failure
    bool never_joined = false;
    int exit_code = 0;  // 128 + n when a signal ended it
  };
  void give_patience(std::chrono::steady_clock::time_point now);
  void on_signal(int signal);
  void reap();
  void ended(std::size_t index, int exit_code, bool by_signal);
  void escalate();
  void send_all(int signal);
  bool all_ended() const;
  bool is_lost(std::size_t index) const;
  Deadline next_deadline() const;
  JobOutcome outcome() const;
  std::string name_of(std::size_t index) const;

  LaunchSignals& signals_;
  StoreServer* const server_;
  const int first_process_;
  const std::chrono::milliseconds patience_;
  const HasJoined has_joined_;
  std::vector<Child> children_;
  std::optional<std::size_t> first_failed_;
  std::optional<Deadline> terminate_at_, kill_at_;
  std::optional<Deadline> stop_requested_;  // when
  int stop_signal_ = 0, kill_signal_ = 0;   // signal of the request, and of the second one
  std::atomic<bool> lost_elsewhere_{false};
};

}  // namespace sluice
