// Runs the processes of a job on this machine. They end with run() or with the launcher. SIGINT,
// SIGTERM and SIGHUP within one second are one request to stop, forwarded as SIGTERM. A later one
// kills everything. After a failure here, or a loss on any machine, other processes have `patience`
// until SIGTERM, and again until SIGKILL. A lost process is killed when all others have ended.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/store_server.h"
#include "launch/child_process.h"
#include "launch/launch_signals.h"
#include "launch/output_merger.h"

namespace sluice {

struct JobOutcome {
  int exit_code = 0;
  bool stopped = false;
  std::string what;  // "process 1 was ended by signal 9 (Killed)"
  bool never_joined = false;
};

class Supervisor {
 public:
  using HasJoined = std::function<bool(int process)>;

  // `server`: null if another launcher serves the store. `has_joined`: if given, exiting with 0
  // without having joined is wrong usage.
  Supervisor(LaunchSignals& signals, StoreServer* server, int first_process,
             std::chrono::milliseconds patience, HasJoined has_joined = {});
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // The job has lost a process, maybe on another machine. Thread-safe.
  void process_was_lost() noexcept { lost_elsewhere_ = true; }
  void start(const ChildOptions& child);
  JobOutcome run();

 private:
  struct Child {
    pid_t pid = 0;
    bool lives = true;
    bool killed_here = false;  // because another process failed
    bool never_joined = false;
    int exit_code = 0;  // 128 + n if signal n ended it
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
  std::optional<Deadline> stop_requested_;
  int stop_signal_ = 0, kill_signal_ = 0;  // first and second request to stop
  std::atomic<bool> lost_elsewhere_{false};
};

}  // namespace sluice
