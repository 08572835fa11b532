// The fastest proven plan: of all named schedules, stages a rank and a searched order.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Plans every candidate, and takes the one whose step is expected to be shortest: of equal ones
// that with fewer stages, then the one that needs less memory, then the first of the table. Only
// programs that fit into memory_per_rank and in which gradients add up in the order of the
// microbatches. Throws Error(kUsage) for a schedule that is given beside it, Error(kMemory) where
// nothing fits, and what plan_pipeline() throws where no candidate can be planned.
Plan best_plan(ModelSpec model, const PipelineOptions& options);

// The plan as a row among others, in its own words. taken: false.
ScheduleCandidate candidate_of(const Plan& plan);

// The compared schedules; the fastest possible one is marked, if there is one.
struct LookedAt {
  std::vector<ScheduleCandidate> candidates;
  std::string time_unit;  // as Plan::time_unit
  bool measured = false;  // not counted
};
// Throws as best_plan() does before it looks.
LookedAt look_at_all(ModelSpec model, const PipelineOptions& options);

// Why the sums of gradients would differ from those of other schedules, "" when they do not: the W
// or B of every stage must be in the order of the microbatches.
std::string order_of_sums_violation(const Program& program);

}  // namespace sluice::detail
