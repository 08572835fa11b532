// Estimates the time of each instruction from samples.
//
// Other activity on the machine makes samples longer, never shorter, and some samples can be many
// times too long. Therefore a time comes from at least two samples if there are two, and a single
// sample decides only if it is the shortest. A whole backward never takes longer than its halves
// together, and no half takes longer than the whole.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/predict/layer_times.h"
#include "sluice/parts/observers.h"

namespace sluice {

// Seconds of one stage. The list of a missing instruction is empty.
struct SampledTimes {
  std::vector<double> forward, backward_input, backward_weight, backward;
  std::vector<double> casting_forward;  // forwards that first cast their weights
};

// The lower quartile, or the shortest of up to three samples. 0 for none.
double typical_time(std::vector<double> samples);

// Returns F, I, W, B and the extra time of a casting forward. A stage without B has no weights to
// train, so its B is its I.
LayerTime typical_times(const SampledTimes& samples);

// True if there are too few samples or they contradict each other.
bool needs_more_samples(const SampledTimes& samples);

// Shortens times so that the backward and its halves are consistent.
void settle(LayerTime& time);

inline double seconds_between(std::chrono::steady_clock::time_point from,
                              std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Observes a rank's pipeline and measures its instructions. Use it from one thread.
class InstructionTimes final : public ExecutorObserver {
 public:
  // `casts`: the first forward of a stage in each step casts its weights.
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
