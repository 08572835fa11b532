// The rules of a replay that simulate() and the search for orders share, whatever a moment records
// beside its time (what has brought it about, or nothing); and the summary of a finished replay:
// makespan, idle time and its parts, the critical path.
//
// Does not own: the order in which ranks are visited, facts about an input before it arrives.
// Thread-safety: values.
#pragma once

#include <algorithm>

#include "plan/neighbours.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// A moment that records nothing.
struct Instant {
  double time = 0;
};

template <typename Moment>
const Moment& later(const Moment& a, const Moment& b) {
  return b.time > a.time ? b : a;
}

// When a message arrives that may leave at `departure`; messages of a channel follow each other.
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

// Bytes of a rank: of its stages, and of the microbatches that are live.
struct LiveBytes {
  double now = 0, peak = 0;

  void hold(double bytes) { peak = now += bytes; }
  // ends: nothing of the microbatch is left for a W.
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

// The cost of a half under the costs of its stage.
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

// When the last row ended, posts included, and the compute action that brought it about.
struct End {
  double time = 0.0;
  Simulation::Step cause{-1, -1};
};

// Preconditions: `result` has the timeline and the busy time of every rank; causes[rank][index] is
// the action that ranks[rank].actions[index] waited for, rank -1: none. Throws for a makespan that
// is not finite.
void summarize(const Program& program, const Costs& costs,
               const std::vector<std::vector<Simulation::Step>>& causes, const End& end,
               Simulation& result);

}  // namespace sluice::detail
