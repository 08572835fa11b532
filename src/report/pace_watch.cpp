#include "report/pace_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace sluice {
namespace {

// Below these limits, deviations are usual on every machine.
constexpr double kOthersCores = 0.25;
constexpr double kStolenShare = 0.02;
constexpr double kSlowerClock = 0.9;
constexpr std::int64_t kPages = 256;  // 1 MiB

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<std::string> reasons_between(const MachineState& before, const MachineState& after) {
  std::vector<std::string> reasons;
  const double seconds = after.elapsed - before.elapsed;
  if (seconds > 0) {
    const double others = ((after.busy - before.busy) - (after.own - before.own)) / seconds;
    if (others > kOthersCores) {
      reasons.push_back(formatted("load: other programs kept {} of the machine's {} busy",
                                  fixed(others, 1), counted(after.cores, "core")));
    }
    const double stolen = (after.stolen - before.stolen) / (seconds * after.cores);
    if (stolen > kStolenShare) {
      reasons.push_back(formatted("load: {} % of the cores' time went to other virtual machines",
                                  fixed(100 * stolen, 0)));
    }
  }
  if (before.clock_mhz > 0 && after.clock_mhz > 0 &&
      after.clock_mhz < kSlowerClock * before.clock_mhz) {
    reasons.push_back(formatted("clock: the processor runs at {} MHz, at the beginning at {}",
                                fixed(after.clock_mhz, 0), fixed(before.clock_mhz, 0)));
  }
  const std::int64_t swapped = after.swapped_pages - before.swapped_pages;
  const std::int64_t faults = after.major_faults - before.major_faults;
  if (swapped >= kPages || faults >= kPages) {
    reasons.push_back(formatted("memory: {} were swapped, {} of this run were read from disk",
                                counted(swapped, "page"), counted(faults, "page")));
  }
  return reasons;
}

bool PaceWatch::add(double seconds) {
  if (began_) window_.push_back(seconds);
  return --left_ == 0;
}

std::optional<std::string> PaceWatch::judge(const MachineState& now) {
  if (!first_clock_) first_clock_ = now.clock_mhz;
  std::optional<MachineState> before = std::exchange(began_, now);
  left_ = kWindow;
  if (!before) return std::nullopt;
  const double median = median_of(window_);
  window_.clear();
  const double ratio = median / expected_;
  if (std::abs(ratio - 1) <= kTolerance) return std::nullopt;
  std::vector<std::string> reasons;
  if (ratio > 1) {
    before->clock_mhz = *first_clock_;
    reasons = reasons_between(*before, now);
    if (straggler_) reasons.push_back(formatted("rank {} is a straggler", *straggler_));
  }
  return formatted(
      "steps take {} times as long as expected: {} ms, the median of {} steps, instead of {} ms; "
      "{}",
      fixed(ratio, 2), fixed(1e3 * median, 1), kWindow, fixed(1e3 * expected_, 1),
      reasons.empty() ? "no reason that the run can see" : join(reasons, "; "));
}

}  // namespace sluice
