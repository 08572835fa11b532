// The signals that a launcher acts on, as events.
//
// Owns: the signal mask of the thread that makes it, and of those that thread starts, while it is
// there. Does not own: acting on them (supervisor.h). Thread-safety: for one thread.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "launch/socket.h"

namespace sluice {

class LaunchSignals {
 public:
  // SIGINT, SIGTERM, SIGHUP (unless it is ignored, as by nohup), SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT
  // and SIGCHLD. SIGPIPE is ignored.
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  // The next that has come, at the latest at the deadline.
  std::optional<int> next(Deadline deadline);
  // Stops this process as SIGTSTP does. Returns when it is continued.
  void stop_here();
  // The mask that processes inherit: that of before.
  const sigset_t& inherited() const { return before_; }

 private:
  sigset_t watched_, before_;
  Socket events_;
};

}  // namespace sluice
