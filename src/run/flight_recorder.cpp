#include "run/flight_recorder.h"

#include <algorithm>
#include <cstdio>

namespace sluice {
namespace {

std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace

void FlightRecorder::begin(int index, const Action& action) {
  ++count_;
  Entry& entry = current();
  entry = Entry();
  entry.step = step_;
  entry.index = index;
  entry.action = action;
  entry.start = Clock::now();
}

void FlightRecorder::waiting(const Action& /*action*/) { current().state = State::kWaiting; }

void FlightRecorder::arrived(const Action& /*action*/, const std::vector<at::Tensor>& tensors) {
  current().state = State::kRunning;
  current().bytes += bytes_of(tensors);
}

void FlightRecorder::sending(const Action& /*action*/, const std::vector<at::Tensor>& tensors) {
  current().bytes += bytes_of(tensors);
}

void FlightRecorder::end(int /*index*/, const Action& /*action*/) { stop(State::kDone); }

void FlightRecorder::failed(int /*index*/, const Action& /*action*/) noexcept {
  stop(State::kFailed);
}

void FlightRecorder::stop(State state) {
  current().state = state;
  current().stop = Clock::now();
}

std::string FlightRecorder::text() const {
  static constexpr const char* kStates[] = {"running", "waiting", "done", "FAILED"};
  std::string lines;
  const std::size_t kept = std::min(count_, entries_.size());
  for (std::size_t i = count_ - kept; i < count_; ++i) {
    const Entry& entry = entries_[i % entries_.size()];
    const bool ended = entry.stop.time_since_epoch().count() != 0;
    const double ms =
        std::chrono::duration<double, std::milli>((ended ? entry.stop : Clock::now()) - entry.start)
            .count();
    char line[160];
    std::snprintf(line, sizeof line, "step %lld  #%-5d %-28s %-8s %10.3f ms %12lld bytes\n",
                  static_cast<long long>(entry.step), entry.index, to_text(entry.action).c_str(),
                  kStates[static_cast<int>(entry.state)], ms, static_cast<long long>(entry.bytes));
    lines += line;
  }
  return lines;
}

}  // namespace sluice
