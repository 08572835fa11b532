// Warns once if steps take another time than the plan expects, with the reasons that the machine
// reports. It compares the median of every 50 steps after the first 5 with the expected time. A
// deviation of more than 15 % is reported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// Counters since the machine started; 0 if unknown.
struct MachineState {
  double elapsed = 0;  // seconds
  int cores = 1;
  double busy = 0;    // processor seconds of all programs
  double own = 0;     // of this run
  double stolen = 0;  // seconds used by other virtual machines
  std::int64_t swapped_pages = 0,
               major_faults = 0;  // swapped: all programs; faults: this process
  double clock_mhz = 0;           // current mean of the cores
};

// Reasons for slower steps between two states: load, clock, memory.
std::vector<std::string> reasons_between(const MachineState& before, const MachineState& after);

class PaceWatch {
 public:
  static constexpr int kWarmUp = 5, kWindow = 50;
  static constexpr double kTolerance = 0.15;

  // `expected`: seconds per step.
  explicit PaceWatch(double expected) : expected_(expected) {}

  // True if judge() must be called after this step.
  bool add(double seconds);
  // Returns the warning if there is one; the watch ends with it.
  std::optional<std::string> judge(const MachineState& now);
  // A rank that StragglerWatch found.
  void straggles(int rank) { straggler_ = rank; }

 private:
  const double expected_;
  int left_ = kWarmUp;  // steps until the next judge()
  std::vector<double> window_;
  std::optional<MachineState> began_;  // when the window began
  std::optional<double> first_clock_;
  std::optional<int> straggler_;
};

}  // namespace sluice
