#pragma once

#include "plan/predict/layer_times.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct MessageTimes {
  double latency = 0;    // seconds of an empty message
  double bandwidth = 0;  // bytes per second; 0: not measurable
};

// Returns the bytes of the largest message between stages, for any split.
double largest_message(const LayerTimes& times);

// Both ranks call this. Only the lower rank's result is measured.
MessageTimes message_times(Transport& transport, int other, double bytes);

}  // namespace sluice
