// Warns once, with possible reasons, if steps take more or less time than the plan predicts.
// Compares the median of every 50 steps, after the first 5, and tolerates 15 %.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// Counters since boot; 0 if unknown.
struct MachineState {
  double elapsed = 0;  // seconds
  int cores = 1;
  double busy = 0;  // CPU seconds of all programs
  double own = 0;   // CPU seconds of this run
  double stolen = 0;
  std::int64_t swapped_pages = 0, major_faults = 0;
  double clock_mhz = 0;
};

std::vector<std::string> reasons_between(const MachineState& before, const MachineState& after);

class PaceWatch {
 public:
  static constexpr int kWarmUp = 5, kWindow = 50;
  static constexpr double kTolerance = 0.15;

  // `expected`: seconds per step.
  explicit PaceWatch(double expected) : expected_(expected) {}

  bool add(double seconds);
  std::optional<std::string> judge(const MachineState& now);
  void straggles(int rank) { straggler_ = rank; }

 private:
  const double expected_;
  int left_ = kWarmUp;
  std::vector<double> window_;
  std::optional<MachineState> began_;
  std::optional<double> first_clock_;
  std::optional<int> straggler_;
};

}  // namespace sluice
