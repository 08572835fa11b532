#include "launch/launch_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/as_error.h"
#include "base/file.h"
#include "sluice/error.h"

namespace sluice {

LaunchSignals::LaunchSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // if ignored, there would be no exit codes
  sigemptyset(&watched_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD}) {
    struct sigaction action;
    ::sigaction(number, nullptr, &action);
    // Blocking an ignored signal would deliver it.
    const bool is_ignored = action.sa_handler == SIG_IGN;
    if (!is_ignored || number != SIGHUP) sigaddset(&watched_, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  events_ = Socket(::signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!events_) throw system_error("cannot watch signals", errno);
}

LaunchSignals::~LaunchSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> LaunchSignals::next(Deadline deadline) {
  if (!wait_for(events_, false, deadline)) return std::nullopt;
  signalfd_siginfo info;
  if (::read(events_.descriptor(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
    return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void LaunchSignals::stop_here() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  std::signal(SIGTSTP, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  // The system ignores SIGTSTP if no process could continue us.
  std::raise(SIGTSTP);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace sluice
