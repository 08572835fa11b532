#include "command/instruction_times.h"

#include <algorithm>
#include <cstddef>

#include "plan/predict/layer_times.h"

namespace sluice {
namespace {

constexpr std::size_t kFewest = 2;
// Two times contradict each other if their ratio exceeds: second to shortest sample, half to whole
// backward, both halves to whole, whole to both halves.
constexpr double kAlone = 2.0, kHalfOfWhole = 1.25, kHalvesOfWhole = 2.0, kWholeOfHalves = 1.5;
constexpr double kSlack = 20e-6;  // seconds

bool exceeds(double time, double share, double other) { return time > share * other + kSlack; }

// True unless a second sample is close to the shortest.
bool needs_another_sample(std::vector<double> samples) {
  if (samples.empty()) return false;
  if (samples.size() < kFewest) return true;
  std::partial_sort(samples.begin(), samples.begin() + 2, samples.end());
  return exceeds(samples[1], kAlone, samples[0]);
}

std::vector<double>& samples_of(SampledTimes& stage, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return stage.forward;
    case ActionKind::kBackwardInput:
      return stage.backward_input;
    case ActionKind::kBackwardWeight:
      return stage.backward_weight;
    default:
      return stage.backward;
  }
}

}  // namespace

double typical_time(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto place = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 4);
  std::nth_element(samples.begin(), place, samples.end());
  return *place;
}

LayerTime typical_times(const SampledTimes& samples) {
  LayerTime time;
  time.forward = typical_time(samples.forward);
  time.cast = std::max(0.0, typical_time(samples.casting_forward) - time.forward);
  time.backward_input = typical_time(samples.backward_input);
  time.backward_weight = typical_time(samples.backward_weight);
  time.backward = samples.backward.empty() ? time.backward_input : typical_time(samples.backward);
  return time;
}

bool needs_more_samples(const SampledTimes& samples) {
  for (const std::vector<double>* each :
       {&samples.forward, &samples.casting_forward, &samples.backward_input,
        &samples.backward_weight, &samples.backward}) {
    if (needs_another_sample(*each)) return true;
  }
  if (samples.backward.empty()) return false;
  const LayerTime time = typical_times(samples);
  const double halves = time.backward_input + time.backward_weight;
  return exceeds(time.backward_input, kHalfOfWhole, time.backward) ||
         exceeds(time.backward_weight, kHalfOfWhole, time.backward) ||
         exceeds(halves, kHalvesOfWhole, time.backward) ||
         exceeds(time.backward, kWholeOfHalves, halves);
}

void settle(LayerTime& time) {
  time.backward = std::min(time.backward, time.backward_input + time.backward_weight);
  time.backward_input = std::min(time.backward_input, time.backward);
  time.backward_weight = std::min(time.backward_weight, time.backward);
}

void InstructionTimes::begin_step(std::int64_t /*step*/) {
  in_compute_ = 0;
  num_compute_ = 0;
}

void InstructionTimes::begin(int index, const Action& action) {
  began_ = Clock::now();
  if (index == 0) row_began_ = began_;
  if (is_compute(action.kind) || num_compute_ == 0 || computed_all_) return;
  computed_all_ = true;
  compute_ended_ = began_;
}

void InstructionTimes::end(int /*index*/, const Action& action) {
  const Clock::time_point now = Clock::now();
  if (!is_compute(action.kind)) return;
  const double seconds = seconds_between(began_, now);
  in_compute_ += seconds;
  ++num_compute_;
  SampledTimes& stage = stages_[action.stage];
  const bool casts = casts_ && action.kind == ActionKind::kForward && action.microbatch == 0;
  (casts ? stage.casting_forward : samples_of(stage, action.kind)).push_back(seconds);
}

void InstructionTimes::end_step() {
  computed_all_ = false;
  updates_.push_back(seconds_between(compute_ended_, Clock::now()));
  const double between = seconds_between(row_began_, compute_ended_) - in_compute_;
  actions_.push_back(std::max(0.0, between / std::max(1, num_compute_)));
}

LayerTime InstructionTimes::of(int stage) const {
  const auto found = stages_.find(stage);
  return found == stages_.end() ? LayerTime() : typical_times(found->second);
}

bool InstructionTimes::needs_more() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const auto& stage) { return needs_more_samples(stage.second); });
}

}  // namespace sluice
