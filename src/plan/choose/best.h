// Finds the fastest verified plan among all named schedules, stages per rank and a searched order.
#pragma once

#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Plans every candidate and returns the plan with the shortest predicted step. Ties go to fewer
// stages, then to less memory, then to the first in the table. Candidates must fit into
// memory_per_rank and sum gradients in microbatch order. Throws Error(kUsage) if a schedule is also
// given, Error(kMemory) if nothing fits, and plan_pipeline()'s errors if no candidate can be
// planned.
Plan best_plan(ModelSpec model, const PipelineOptions& options);

// Summarizes the plan. Leaves `taken` false.
ScheduleCandidate candidate_of(const Plan& plan);

// All compared schedules. The fastest usable one is marked, if there is one.
struct LookedAt {
  std::vector<ScheduleCandidate> candidates;
  std::string time_unit;
  bool measured = false;  // true if times were measured, false if counted
};
// Throws as best_plan() does for invalid options.
LookedAt look_at_all(ModelSpec model, const PipelineOptions& options);

// Returns "" if the W or B of every stage run in microbatch order, otherwise an explanation.
// Another order would change the floating-point sums of gradients.
std::string order_of_sums_violation(const Program& program);

}  // namespace sluice::detail
