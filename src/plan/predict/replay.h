// Timing rules shared by simulate() and the schedule search. Moment is any type with a member
// `time`.
#pragma once

#include <algorithm>

#include "plan/neighbours.h"
#include "sluice/simulate.h"

namespace sluice::detail {

struct Instant {
  double time = 0;
};

template <typename Moment>
const Moment& later(const Moment& a, const Moment& b) {
  return b.time > a.time ? b : a;
}

// Returns when a message arrives that can leave at `departure`. A channel sends one message after
// another.
template <typename Moment>
Moment arrival_of(Moment departure, double occupied, double latency, Moment& channel_free) {
  if (occupied > 0.0) {
    departure = later(departure, channel_free);
    departure.time += occupied;
    channel_free = departure;
  }
  departure.time += latency;
  return departure;
}

struct LiveBytes {
  double now = 0, peak = 0;

  void hold(double bytes) { peak = now += bytes; }
  // `ends` is true if this is the last action of the microbatch on the stage.
  void count(ActionKind kind, const StageCosts& costs, bool ends) {
    if (kind == ActionKind::kForward) {
      now += costs.kept_bytes;
    } else {
      peak = std::max(peak, now + costs.running_bytes);
      if (kind == ActionKind::kBackwardInput && !ends) now += costs.kept_after_input_bytes;
      if (makes_input_gradient(kind)) now -= costs.kept_bytes;
      if (kind == ActionKind::kBackwardWeight) now -= costs.kept_after_input_bytes;
    }
    peak = std::max(peak, now);
  }
};

inline double cost_of(ActionKind kind, const StageCosts& costs) {
  switch (kind) {
    case ActionKind::kBackward:
      return costs.backward;
    case ActionKind::kBackwardInput:
      return costs.backward_input;
    case ActionKind::kBackwardWeight:
      return costs.backward_weight;
    default:
      return costs.forward;
  }
}

// When the last rank and its transfers end, and the compute action that determines it.
struct End {
  double time = 0.0;
  Simulation::Step cause{-1, -1};
};

// Sets makespan, idle time and critical path from the timelines and busy times in `result`.
// causes[rank][index] is the action that ranks[rank].actions[index] waited for (rank -1: none).
// Throws if the makespan is not finite.
void summarize(const Program& program, const Costs& costs,
               const std::vector<std::vector<Simulation::Step>>& causes, const End& end,
               Simulation& result);

}  // namespace sluice::detail
