// Estimates instruction times from samples. Other activity on the machine only makes samples
// longer, some many times. With two or more samples, no time therefore comes from a single one,
// except the shortest.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/predict/layer_times.h"
#include "sluice/parts/observers.h"

namespace sluice {

// In seconds. A stage may lack some instructions.
struct SampledTimes {
  std::vector<double> forward, backward_input, backward_weight, backward;
  std::vector<double> casting_forward;
};

// The lower quartile. Of up to three samples it is the shortest. 0 for none.
double typical_time(std::vector<double> samples);

// Returns F, I, W, B and the extra time of casting. A stage without B trains no weights, so its B
// is its I.
LayerTime typical_times(const SampledTimes& samples);

bool needs_more_samples(const SampledTimes& samples);

// Shortens times that contradict each other. Afterwards a backward takes no longer than its two
// halves together, and no half takes longer than the whole.
void settle(LayerTime& time);

inline double seconds_between(std::chrono::steady_clock::time_point from,
                              std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// For one rank's thread.
class InstructionTimes final : public ExecutorObserver {
 public:
  // `casts`: the first forward of a stage in a step casts its weights.
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
