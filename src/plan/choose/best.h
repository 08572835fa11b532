// Finds the fastest verified plan.
#pragma once

#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Compares all named schedules, with several stages per rank, and a searched order. Returns the
// plan with the shortest predicted step. Ties go to fewer stages, then less memory, then table
// order. Plans must fit into memory_per_rank and sum gradients in microbatch order. Throws
// Error(kUsage) if a schedule is also given, Error(kMemory) if nothing fits, and plan_pipeline()'s
// errors if all candidates fail.
Plan best_plan(ModelSpec model, const PipelineOptions& options);

ScheduleCandidate candidate_of(const Plan& plan);

// Marks the fastest usable candidate, if any.
struct LookedAt {
  std::vector<ScheduleCandidate> candidates;
  std::string time_unit;
  bool measured = false;  // whether times were measured rather than estimated
};
LookedAt look_at_all(ModelSpec model, const PipelineOptions& options);

// Returns "" if every stage makes its weight gradients in microbatch order. Another order changes
// the floating-point sums.
std::string order_of_sums_violation(const Program& program);

}  // namespace sluice::detail
