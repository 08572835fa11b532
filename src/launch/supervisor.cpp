#include "launch/supervisor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kStopped = 75;
constexpr const char* kNeverJoined = "ended with exit code 0 and has not joined the job";
constexpr milliseconds kOneRequest{1000};
constexpr milliseconds kChildLook{200}, kIdleLook{1000};

}  // namespace

Supervisor::Supervisor(LaunchSignals& signals, StoreServer* server, int first_process,
                       milliseconds patience, HasJoined has_joined)
    : signals_(signals),
      server_(server),
      first_process_(first_process),
      patience_(patience),
      has_joined_(std::move(has_joined)) {}

Supervisor::~Supervisor() {
  send_all(SIGKILL);
  for (const Child& child : children_) {
    if (!child.lives) continue;
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void Supervisor::start(const ChildOptions& child) {
  children_.push_back({.pid = start_child(child)});
}

JobOutcome Supervisor::run() {
  // Children may have ended before this call.
  for (reap(); !all_ended(); reap(), escalate()) {
    if (const auto signal = signals_.next(next_deadline())) on_signal(*signal);
  }
  return outcome();
}

void Supervisor::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return;
    case SIGUSR1:
    case SIGUSR2:
      return send_all(signal);
    case SIGTSTP:
      send_all(SIGSTOP);
      signals_.stop_here();
      return send_all(SIGCONT);
    case SIGCONT:
      return send_all(SIGCONT);
    default:
      break;
  }
  const Deadline now = Clock::now();
  if (!stop_requested_) {
    stop_requested_ = now;
    stop_signal_ = signal;
    send_all(SIGTERM);
  } else if (now - *stop_requested_ >= kOneRequest && kill_signal_ == 0) {
    kill_signal_ = signal;
    send_all(SIGKILL);
  }
}

void Supervisor::reap() {
  for (std::size_t index = 0; index < children_.size(); ++index) {
    Child& child = children_[index];
    siginfo_t info = {};
    // Keep the zombie until its group is killed, because its pid is the group's id and must not be
    // reused.
    if (!child.lives ||
        ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      continue;
    }
    ::kill(-child.pid, SIGKILL);
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    child.lives = false;
    const bool by_signal = info.si_code != CLD_EXITED;
    ended(index, by_signal ? 128 + info.si_status : info.si_status, by_signal);
  }
}

void Supervisor::ended(std::size_t index, int exit_code, bool by_signal) {
  Child& child = children_[index];
  const int process = first_process_ + static_cast<int>(index);
  child.never_joined = exit_code == 0 && !first_failed_ && !stop_requested_ && !kill_at_ &&
                       has_joined_ && !has_joined_(process);
  if (child.never_joined) exit_code = static_cast<int>(ErrorKind::kUsage);
  child.exit_code = exit_code;
  if (child.killed_here && !first_failed_) first_failed_ = index;
  if (exit_code == 0 || exit_code == kStopped || child.killed_here) return;
  if (!first_failed_) {
    first_failed_ = index;
    give_patience(Clock::now());
  }
  if (!server_) return;
  if (child.never_joined) {
    server_->report_end(process, kNeverJoined, true);
  } else if (by_signal) {
    server_->report_end(process, "was ended by " + signal_text(exit_code - 128));
  } else {
    server_->report_end(process, "ended with exit code " + std::to_string(exit_code), true);
  }
}

void Supervisor::give_patience(Deadline now) {
  if (kill_at_) return;
  terminate_at_ = now + patience_;
  kill_at_ = *terminate_at_ + patience_;
}

void Supervisor::escalate() {
  const Deadline now = Clock::now();
  // After a loss, processes have nothing to save, so start their time until SIGTERM now.
  const auto failure = server_ ? server_->failure() : std::nullopt;
  if (lost_elsewhere_ || (failure && failure->kind == ErrorKind::kPeer)) give_patience(now);
  const auto others_ended = [this](std::size_t index) {
    for (std::size_t other = 0; other < children_.size(); ++other)
      if (other != index && children_[other].lives) return false;
    return true;
  };
  for (std::size_t index = 0; index < children_.size(); ++index) {
    Child& child = children_[index];
    if (!child.lives) continue;
    if ((kill_at_ && now >= *kill_at_) || (is_lost(index) && others_ended(index))) {
      child.killed_here = true;
      ::kill(-child.pid, SIGKILL);
    } else if (terminate_at_ && now >= *terminate_at_) {
      child.killed_here = true;
      ::kill(child.pid, SIGTERM);
    }
  }
  if (terminate_at_ && now >= *terminate_at_) terminate_at_.reset();
}

// Sends requests (to stop, save or record) to processes, other signals to their groups.
void Supervisor::send_all(int signal) {
  const bool is_request = signal != SIGKILL && signal != SIGSTOP && signal != SIGCONT;
  for (const Child& child : children_) {
    if (child.lives) ::kill(is_request ? child.pid : -child.pid, signal);
  }
}

bool Supervisor::all_ended() const {
  return std::none_of(children_.begin(), children_.end(),
                      [](const Child& child) { return child.lives; });
}

bool Supervisor::is_lost(std::size_t index) const {
  const auto failure = server_ ? server_->failure() : std::nullopt;
  return failure && failure->kind == ErrorKind::kPeer &&
         failure->process == first_process_ + static_cast<int>(index);
}

Deadline Supervisor::next_deadline() const {
  Deadline next = Clock::now() + kChildLook;
  if (!first_failed_ && !kill_at_) return next + kIdleLook;
  if (terminate_at_) next = std::min(next, *terminate_at_);
  if (kill_at_) next = std::min(next, *kill_at_);
  return std::max(next, Clock::now() + milliseconds(1));
}

std::string Supervisor::name_of(std::size_t index) const {
  return "process " + std::to_string(first_process_ + static_cast<int>(index));
}

JobOutcome Supervisor::outcome() const {
  JobOutcome outcome;
  outcome.stopped = stop_requested_.has_value();
  if (kill_signal_ != 0) {
    outcome.exit_code = 128 + kill_signal_;
    outcome.what = "a second request to stop ended all processes";
    return outcome;
  }
  if (!first_failed_) {
    const bool stopped = std::any_of(children_.begin(), children_.end(), [](const Child& child) {
      return child.exit_code == kStopped;
    });
    outcome.exit_code = stopped ? kStopped : 0;
    return outcome;
  }
  // Processes that react to a failure may end before the process that failed.
  std::size_t culprit = *first_failed_;
  const auto failure = server_ ? server_->failure() : std::nullopt;
  const int said = failure ? failure->process - first_process_ : -1;
  const bool is_here = said >= 0 && said < static_cast<int>(children_.size());
  if (is_here) culprit = static_cast<std::size_t>(said);
  const Child& child = children_[culprit];
  outcome.exit_code = child.exit_code;
  outcome.never_joined = child.never_joined;
  outcome.what = name_of(culprit) + " " +
                 (child.never_joined ? kNeverJoined
                                     : "ended with exit code " + std::to_string(child.exit_code));
  if (child.killed_here || child.exit_code == 0 || child.exit_code == kStopped) {
    outcome.exit_code = failure           ? static_cast<int>(failure->kind)
                        : lost_elsewhere_ ? static_cast<int>(ErrorKind::kPeer)
                                          : children_[*first_failed_].exit_code;
    outcome.what = failure && !is_here ? failure->message.substr(0, failure->message.find("; "))
                                       : name_of(culprit) + " is lost";
  } else if (child.exit_code > 128) {
    outcome.what = name_of(culprit) + " was ended by " + signal_text(child.exit_code - 128);
  }
  // SIGTERM is our forwarded stop signal, and killed a process with nothing to save.
  if (outcome.stopped && outcome.exit_code == 128 + SIGTERM) outcome.exit_code = 128 + stop_signal_;
  return outcome;
}

}  // namespace sluice
