// The depth-first order of interleaved schedules.
//
// m microbatches on p ranks run in max(1, m / p) rounds. In a round, a rank runs all microbatches
// on its first stage, then on its second stage, and so on. The first rounds take one of the
// remaining microbatches each.
#pragma once

#include <vector>

#include "sluice/schedule.h"

namespace sluice::detail {

struct RoundStep {
  int local_stage = 0;  // index among the rank's stages
  int microbatch = 0;
};

struct Rounds {
  std::vector<RoundStep> forward;   // for one rank
  std::vector<RoundStep> backward;  // within a round, last stage first
  int largest_round = 0;            // in microbatches
};

Rounds make_rounds(const ScheduleShape& shape);

// Returns the number of forwards before a rank's first backward. A rank runs one round (see above)
// of forwards on each of its stages but the last. It runs `per_hop` more for each rank after it, to
// have work while the first gradient travels back through those ranks.
int warmup_forwards(const ScheduleShape& shape, const Rounds& rounds, int rank, int per_hop);

}  // namespace sluice::detail
