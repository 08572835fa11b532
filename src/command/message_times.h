// Time that a message between two ranks takes, over the transport of the run.
//
// Does not own: endpoints, the time of measuring (measure_machine.cpp, processes.cpp).
// Thread-safety: pure functions; an endpoint is for its rank's thread.
#pragma once

#include "plan/predict/layer_times.h"
#include "sluice/parts/transport.h"

namespace sluice {

struct MessageTimes {
  double latency = 0;    // seconds of a message that holds nothing
  double bandwidth = 0;  // bytes a second of what it holds; 0: they take no time
};

// Bytes of the largest message between stages, however the model is split.
double largest_message(const LayerTimes& times);

// Both ranks call it with the same bytes; those of the one with the lower number are measured.
MessageTimes message_times(Transport& transport, int other, double bytes);

}  // namespace sluice
