// From times that an instruction took, to the time that it takes.
//
// Owns: the statistic, what of it cannot be, and when a measurement has to go on. Does not own: the
// clock, what is run (measure_machine()).
//
// Whatever else happens on a machine makes a sample longer, never shorter; a few samples of many
// may be any number of times too long, and so may the only one. Invariants:
//  1. A time comes from at least two samples where there are two, and one sample never decides it,
//     unless it is the shortest.
//  2. A whole backward takes no longer than its halves, and no half longer than the whole.
// Thread-safety: values, pure functions.
#pragma once

#include <vector>

#include "plan/predict/layer_times.h"

namespace sluice {

// Seconds. Of one stage, by instruction: what it does not have is empty.
struct SampledTimes {
  std::vector<double> forward, backward_input, backward_weight, backward;
};

// The lower quartile: of up to three samples the shortest. 0 for none.
double typical_time(std::vector<double> samples);

// F, I, W and B. A stage that has no B, as it has no weights to train, does there what I does.
LayerTime typical_times(const SampledTimes& samples);

// They are too few, or contradict each other: more samples have to decide.
bool needs_more_samples(const SampledTimes& samples);

// What invariant 2 says, by shortening.
void settle(LayerTime& time);

}  // namespace sluice
