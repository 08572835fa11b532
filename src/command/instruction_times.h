// The time of an instruction, estimated from its samples.
//
// Owns: the statistic, its bounds, the decision to measure longer, and the observer that takes the
// times. Does not own: the measured program (measure_machine()).
//
// Other activity on a machine makes a sample longer, never shorter; a few samples of many may be
// many times too long, and so may a single one. Invariants:
//  1. A time comes from at least two samples where there are two, and one sample never decides it,
//     unless it is the shortest.
//  2. A whole backward takes no longer than its halves, and no half longer than the whole.
// Thread-safety: values, pure functions; an InstructionTimes is for one rank's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/predict/layer_times.h"
#include "sluice/parts/observers.h"

namespace sluice {

// Seconds of one stage, by instruction: what it does not have is empty.
struct SampledTimes {
  std::vector<double> forward, backward_input, backward_weight, backward;
  std::vector<double> casting_forward;  // forwards that cast their weights before
};

// The lower quartile: of up to three samples the shortest. 0 for none.
double typical_time(std::vector<double> samples);

// F, I, W, B, and what a forward that casts takes more than others. A stage that has no B, as it
// has no weights to train, does there what I does.
LayerTime typical_times(const SampledTimes& samples);

// They are too few, or contradict each other: more samples have to decide.
bool needs_more_samples(const SampledTimes& samples);

// Makes invariant 2 hold, by shortening.
void settle(LayerTime& time);

// Seconds between two moments.
inline double seconds_between(std::chrono::steady_clock::time_point from,
                              std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The seconds that the instructions of one rank's rounds took, as the observer of its pipeline.
class InstructionTimes final : public ExecutorObserver {
 public:
  // casts: the first forward of a stage in a step casts its weights.
  explicit InstructionTimes(bool casts = false) : casts_(casts) {}

  void begin_step(std::int64_t step) override;
  void begin(int index, const Action& action) override;
  void end(int index, const Action& action) override;
  void end_step() override;

  LayerTime of(int stage) const;
  double update() const { return typical_time(updates_); }
  double action() const { return typical_time(actions_); }  // between two instructions
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
