// The depth-first order that the interleaved schedules share.
//
// Microbatches go through the pipeline in rounds of at least one per rank (or all of them, when
// there are fewer): a rank runs its first stage for the whole round, then its second stage, and so
// on; then the next round. max(1, m / p) rounds; a remainder is spread one by one over the first
// rounds. Without a remainder these are the rounds of torch.distributed.pipelining.
// Thread-safety: values.
#pragma once

#include <vector>

#include "sluice/schedule.h"

namespace sluice::detail {

struct RoundStep {
  int local_stage = 0;  // 0 .. stages_per_rank - 1, in the order of the model
  int microbatch = 0;
};

struct Rounds {
  std::vector<RoundStep> forward;   // all stages and microbatches of one rank
  std::vector<RoundStep> backward;  // the same, last stage first within a round
  int largest_round = 0;            // microbatches
};

Rounds make_rounds(const ScheduleShape& shape);

// Forwards of `rank` before its first backward: all but the last stage of the largest round, and
// `per_hop` for every rank between it and the last.
int warmup_forwards(const ScheduleShape& shape, const Rounds& rounds, int rank, int per_hop);

}  // namespace sluice::detail
