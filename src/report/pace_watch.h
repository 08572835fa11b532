// The search for steps whose time differs from the plan of measured times, and for its reason, as
// far as the machine reports it.
//
// The median of every 50 steps after the first 5 is compared with the expectation; the first that
// is more than 15 % off is reported, and none after it.
//
// Owns: the judgement and its text. Does not own: the expectation (Plan), reading the machine
// (command/machine_state.h), the log. Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// Counters of a machine since it started, but for the clock. 0: it does not say.
struct MachineState {
  double elapsed = 0;  // seconds, of one core
  int cores = 1;
  double busy = 0;    // processor seconds of all programs
  double own = 0;     // part of busy that this run had
  double stolen = 0;  // seconds that another virtual machine had
  std::int64_t swapped_pages = 0,
               major_faults = 0;  // pages of all programs; faults of this process
  double clock_mhz = 0;           // now, the mean of the cores
};

// Reasons for steps that take longer, between two states: of load, clock and memory. Empty: none.
std::vector<std::string> reasons_between(const MachineState& before, const MachineState& after);

class PaceWatch {
 public:
  static constexpr int kWarmUp = 5, kWindow = 50;
  static constexpr double kTolerance = 0.15;

  // expected: seconds of a step.
  explicit PaceWatch(double expected) : expected_(expected) {}

  // True if the state of the machine is needed after this step: after kWarmUp, and after every
  // kWindow steps from then on.
  bool add(double seconds);
  // After add() was true. Returns the warning, if it is due: the watch ends with it.
  std::optional<std::string> judge(const MachineState& now);
  // A rank that the others wait for, as the search for stragglers found.
  void straggles(int rank) { straggler_ = rank; }

 private:
  const double expected_;
  int left_ = kWarmUp;  // steps until the next state
  std::vector<double> window_;
  std::optional<MachineState> began_;  // the state when the window began
  std::optional<double> first_clock_;
  std::optional<int> straggler_;
};

}  // namespace sluice
