#include "launch/stop_signal.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace sluice {
namespace {

constexpr std::int64_t kSameRequestNanoseconds = 2'000'000'000;

std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_at{0};
std::atomic<bool> worth_saving{false};
std::atomic<bool> stop_requested{false};
std::atomic<bool> save_requested{false};
std::atomic<bool> is_over{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void on_signal(int number) {
  if (is_over.load()) return;
  if (!worth_saving.load()) _exit(128 + number);
  if (!stop_requested.exchange(true)) {
    first_at = now();
    first_signal = number;
  } else if (number == first_signal.load() || now() - first_at.load() > kSameRequestNanoseconds) {
    _exit(128 + number);
  }
}

void on_save_signal(int /*number*/) { save_requested = true; }

void install(int signal, void (*handler)(int), struct sigaction* before = nullptr) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, before);
}

}  // namespace

StopSignal::StopSignal() {
  worth_saving = false;
  stop_requested = false;
  save_requested = false;
  install(SIGUSR1, on_save_signal);
  sigset_t save;
  sigemptyset(&save);
  sigaddset(&save, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &save, nullptr);  // begin_process() blocked SIGUSR1
  is_over = false;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) {
    const bool asks_to_stop = signal != SIGPIPE && signal != SIGXFSZ;
    struct sigaction before;
    install(signal, asks_to_stop ? on_signal : SIG_IGN, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
  }
}

void StopSignal::step_finished() { worth_saving = true; }
bool StopSignal::requested() const { return stop_requested; }
bool StopSignal::take_save_request() { return save_requested.exchange(false); }
void StopSignal::run_finished() { is_over = true; }

}  // namespace sluice
