#include "launch/record_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/as_error.h"
#include "base/file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Global, because a signal handler can reach nothing else. -1 if there is no RecordSignal.
std::atomic<int> signal_event{-1};
static_assert(std::atomic<int>::is_always_lock_free);

// Ends the thread. Larger than any count of signals.
constexpr std::uint64_t kEndOfCalls = std::uint64_t{1} << 48;

void add_to_event(int event, std::uint64_t value) {
  [[maybe_unused]] const ssize_t written = ::write(event, &value, sizeof value);
}

void on_record_signal(int /*number*/) {
  const int saved = errno;
  if (const int event = signal_event.load(); event >= 0) add_to_event(event, 1);
  errno = saved;
}

}  // namespace

struct RecordSignal::Impl {
  explicit Impl(std::function<void()> call) : event(eventfd(0, EFD_CLOEXEC)) {
    if (event < 0) throw system_error("cannot watch for SIGUSR2", errno);
    thread = std::thread([this, call = std::move(call)] {
      std::uint64_t count = 0;
      while (true) {
        const ssize_t got = ::read(event, &count, sizeof count);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || count >= kEndOfCalls) return;
        call();
      }
    });
  }
  ~Impl() {
    add_to_event(event, kEndOfCalls);
    thread.join();
    close(event);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const int event;
  std::thread thread;
};

RecordSignal::RecordSignal(std::function<void()> call)
    : impl_(std::make_unique<Impl>(std::move(call))) {
  signal_event = impl_->event;
  struct sigaction action = {};
  action.sa_handler = on_record_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, nullptr);
  sigset_t request;
  sigemptyset(&request);
  sigaddset(&request, SIGUSR2);
  pthread_sigmask(SIG_UNBLOCK, &request, nullptr);  // begin_process() blocked SIGUSR2
}

RecordSignal::~RecordSignal() { signal_event = -1; }

}  // namespace sluice
