#include "job/stop_signal.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace sluice {
namespace {

// A handler can reach nothing else.
std::atomic<bool> worth_saving{false};
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

struct Disposition {
  int signal;
  struct sigaction before;
};
std::array<Disposition, 5> dispositions = {
    {{SIGINT, {}}, {SIGTERM, {}}, {SIGHUP, {}}, {SIGPIPE, {}}, {SIGXFSZ, {}}}};

void on_signal(int number) {
  if (!worth_saving.load() || stop_requested.exchange(true)) _exit(128 + number);
}

bool asks_to_stop(int signal) { return signal != SIGPIPE && signal != SIGXFSZ; }

}  // namespace

StopSignal::StopSignal() {
  worth_saving = false;
  stop_requested = false;
  for (auto& [signal, before] : dispositions) {
    struct sigaction action {};
    action.sa_handler = asks_to_stop(signal) ? on_signal : SIG_IGN;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (const auto& [signal, before] : dispositions) sigaction(signal, &before, nullptr);
}

void StopSignal::step_finished() { worth_saving = true; }
bool StopSignal::requested() const { return stop_requested; }

}  // namespace sluice
