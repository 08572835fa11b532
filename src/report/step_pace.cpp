#include "report/step_pace.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kMostKept = 1001;

}  // namespace

void TimeLeft::add_step(double seconds) {
  (steps_ == 0 ? first_ : rest_) += seconds;
  ++steps_;
}

std::optional<double> TimeLeft::after(std::int64_t step, std::int64_t num_steps) const {
  if (steps_ == 0) return std::nullopt;
  const double mean = steps_ == 1 ? first_ : rest_ / static_cast<double>(steps_ - 1);
  return mean * static_cast<double>(num_steps - step);
}

void StepTimesSeen::add(double seconds) {
  if (!std::exchange(skipped_first_, true)) return;
  if (seconds_.size() < kMostKept) {
    seconds_.push_back(seconds);
  } else {
    seconds_[next_++ % kMostKept] = seconds;
  }
}

std::optional<double> StepTimesSeen::median() const {
  if (seconds_.empty()) return std::nullopt;
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::int64_t StepTimesSeen::num_counted() const {
  return static_cast<std::int64_t>(seconds_.size());
}

}  // namespace sluice
