// The summary of a finished replay.
//
// Owns: makespan, idle time and its parts, the critical path. Does not own: the replay.
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "sluice/simulate.h"

namespace sluice::detail {

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
