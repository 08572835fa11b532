#include "train/stop_signal.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace sluice {
namespace {

// A handler can reach nothing else.
std::atomic<bool> worth_saving{false};
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

struct sigaction old_interrupt, old_terminate;

void on_signal(int number) {
  if (!worth_saving.load() || stop_requested.exchange(true)) _exit(128 + number);
}

}  // namespace

StopSignal::StopSignal() {
  worth_saving = false;
  stop_requested = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGTERM, &action, &old_terminate);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGTERM, &old_terminate, nullptr);
}

void StopSignal::step_finished() { worth_saving = true; }
bool StopSignal::requested() const { return stop_requested; }

}  // namespace sluice
