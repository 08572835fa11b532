// Steps that take other times than the plan of measured times expects, and why, as far as the
// machine tells.
//
// The median of every 50 steps after the first 5 is compared with the expectation; the first that
// is more than 15 % off is said, and none after it.
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
  double busy = 0;                                   // processor seconds of all programs
  double own = 0;                                    // of them those of this run
  double stolen = 0;                                 // that another virtual machine had
  std::int64_t swapped_pages = 0, major_faults = 0;  // of all programs; of this process
  double clock_mhz = 0;                              // now, the mean of the cores
};

// Reasons for steps that take longer, between two states: of load, clock and memory. Empty: none.
std::vector<std::string> reasons_between(const MachineState& before, const MachineState& after);

class PaceWatch {
 public:
  static constexpr int kWarmUp = 5, kWindow = 50;
  static constexpr double kTolerance = 0.15;

  // expected: seconds of a step.
  explicit PaceWatch(double expected) : expected_(expected) {}

  // Whether the state of the machine has to be known, after this step: after kWarmUp, and after
  // every kWindow steps from there on.
  bool add(double seconds);
  // After add() was true. Returns the warning, if it is due: nothing is to be watched after it.
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
