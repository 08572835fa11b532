#include "job/step_times_seen.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kMostKept = 1001;

}  // namespace

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
