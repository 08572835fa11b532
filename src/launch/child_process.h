// A process that ends when its parent does.
//
// Owns: starting it. Does not own: waiting for it, its signals (supervisor.h).
//
// Invariants:
//  1. The child is the leader of a process group of its own, has SIGKILL as its parent-death signal
//     before it runs anything of the program, and does not run it when the parent has ended
//     already. (The signal is tied to the thread that starts it: that thread has to live on.)
// Thread-safety: any thread; other threads may run.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace sluice {

struct ChildOptions {
  std::string program;                   // the file to execute
  std::vector<std::string> arguments;    // argv, its name included
  std::vector<std::string> environment;  // "NAME=value"
  int output = 1, errors = 2;            // descriptors that become its stdout and stderr
  sigset_t blocked_signals;              // its signal mask
};

// Its stdin is /dev/null. Throws Error(kUsage) when the program cannot be executed, and
// system_error() (socket.h) when the system starts no more processes or opens no more files.
pid_t start_child(const ChildOptions& options);

// "signal 9 (Killed)"
std::string signal_text(int signal);

}  // namespace sluice
