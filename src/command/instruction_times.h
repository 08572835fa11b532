// Estimates instruction times from samples. Other activity on the machine only makes samples
// longer, so with two or more samples no estimate depends on one long sample.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/predict/layer_times.h"
#include "sluice/parts/observers.h"

namespace sluice {

// Samples of a stage in seconds. A stage may lack some kinds of instructions.
struct SampledTimes {
  std::vector<double> forward, backward_input, backward_weight, backward;
  std::vector<double> casting_forward;
};

// Returns the lower quartile, which is the shortest of up to three samples. 0 without samples.
double typical_time(std::vector<double> samples);

// Returns forward, input gradient, weight gradient, whole backward and extra casting time. A stage
// without whole backwards trains no weights, so its backward equals its input gradient.
LayerTime typical_times(const SampledTimes& samples);

bool needs_more_samples(const SampledTimes& samples);

// Shortens times that contradict each other, so that input gradient and weight gradient each take
// at most as long as the backward, which takes at most their sum.
void settle(LayerTime& time);

inline double seconds_between(std::chrono::steady_clock::time_point from,
                              std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Used by one rank's thread only.
class InstructionTimes final : public ExecutorObserver {
 public:
  // `casts`: a stage casts its weights in its first forward of a step.
  explicit InstructionTimes(bool casts = false) : casts_(casts) {}

  void begin_step(std::int64_t step) override;
  void begin(int index, const Action& action) override;
  void end(int index, const Action& action) override;
  void end_step() override;

  LayerTime of(int stage) const;
  double update() const { return typical_time(updates_); }
  double action() const { return typical_time(actions_); }
  bool needs_more() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool casts_;
  Clock::time_point began_, row_began_, compute_ended_;
  bool computed_all_ = false;
  double in_compute_ = 0;
  int num_compute_ = 0;
  std::vector<double> updates_, actions_;
  std::map<int, SampledTimes> stages_;
};

}  // namespace sluice
