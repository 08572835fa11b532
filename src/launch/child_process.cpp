#include "launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/as_error.h"
#include "base/file.h"
#include "base/format.h"
#include "job/socket.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Runs after fork, so only async-signal-safe calls: another thread of the parent may have held any
// lock.
[[noreturn]] void become(const ChildOptions& options, char** arguments, char** environment,
                         pid_t parent, int null_device, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended between fork and prctl.
  if (::getppid() != parent) ::_exit(128 + SIGKILL);
  // Reset ignored signals, which the program may not expect. SIGHUP stays: nohup ignores it on
  // purpose.
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD})
    ::signal(number, SIG_DFL);
  // Writing to the terminal from the background must not stop the child (stty tostop).
  ::signal(SIGTTOU, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &options.blocked_signals, nullptr);
  const bool placed = ::dup2(null_device, STDIN_FILENO) >= 0 &&
                      ::dup2(options.output, STDOUT_FILENO) >= 0 &&
                      ::dup2(options.errors, STDERR_FILENO) >= 0;
  if (placed) ::execve(options.program.c_str(), arguments, environment);
  const int failed = errno;
  [[maybe_unused]] const ssize_t put = ::write(report, &failed, sizeof failed);
  ::_exit(127);
}

Error cannot_start(int error_number) {
  return system_error("cannot start a process", error_number);
}

Socket require_descriptor(int descriptor) {
  if (descriptor < 0) throw cannot_start(errno);
  return Socket(descriptor);
}

// Returns a copy above 2, which placing stdin, stdout and stderr does not overwrite.
Socket copy_of(int descriptor) {
  return require_descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
}

}  // namespace

pid_t start_child(const ChildOptions& options) {
  const std::vector<char*> arguments = pointers_to(options.arguments);
  const std::vector<char*> environment = pointers_to(options.environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw cannot_start(errno);
  const Socket read_end(ends[0]);
  Socket write_end(ends[1]);
  const Socket null_device = require_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Socket output = copy_of(options.output), errors = copy_of(options.errors);
  ChildOptions placed = options;
  placed.output = output.descriptor();
  placed.errors = errors.descriptor();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(placed, const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()),
           parent, null_device.descriptor(), write_end.descriptor());
  }
  if (child < 0) throw cannot_start(errno);
  ::setpgid(child, child);
  write_end.close();
  int failed = 0;
  ssize_t got;
  do {
    got = ::read(read_end.descriptor(), &failed,
                 sizeof failed);  // end of file: exec succeeded
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof failed)) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  throw Error(ErrorKind::kUsage, {.what = "cannot execute the program: " + errno_text(failed),
                                  .where = options.program,
                                  .remedy = "check its path and permissions"});
}

std::string signal_text(int signal) {
  const char* const name = ::strsignal(signal);
  return formatted("signal {}{}", signal, name ? " (" + std::string(name) + ")" : "");
}

}  // namespace sluice
