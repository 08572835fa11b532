// Starts a process that ends when its parent does. The thread that calls start_child() must live as
// long, because Linux ties the child to the forking thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace sluice {

struct ChildOptions {
  std::string program;
  std::vector<std::string> arguments;  // including argv[0]
  std::vector<std::string> environment;
  int output = 1, errors = 2;  // the child's stdout and stderr
  sigset_t blocked_signals;
};

// The child's stdin is /dev/null, and it leads its own process group. Throws Error(kUsage) if the
// program cannot be executed, and system_error() if the system has no process or descriptor left.
pid_t start_child(const ChildOptions& options);

// "signal 9 (Killed)"
std::string signal_text(int signal);

}  // namespace sluice
