// Receives a launcher's signals as events. They stay blocked in the calling thread and its later
// threads.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "job/socket.h"

namespace sluice {

class LaunchSignals {
 public:
  // Ignores SIGPIPE. An ignored SIGHUP (nohup) stays ignored.
  LaunchSignals();
  ~LaunchSignals();
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  // Returns std::nullopt at the deadline.
  std::optional<int> next(Deadline deadline);
  // Stops this process by SIGTSTP. Returns when it is continued.
  void stop_here();
  // The signal mask from before the constructor, which child processes need.
  const sigset_t& inherited() const { return before_; }

 private:
  sigset_t watched_, before_;
  Socket events_;
};

}  // namespace sluice
