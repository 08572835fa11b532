#pragma once

#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Compares all named schedules and one found by search, with one or more stages per rank. Returns
// the verified plan with the shortest predicted step. Ties go to fewer stages, then less memory,
// then table order. Plans must fit into memory_per_rank and accumulate gradients in microbatch
// order. Throws Error(kUsage) if the options name a schedule, Error(kMemory) if nothing fits, and
// plan_pipeline()'s errors if all candidates fail.
Plan best_plan(ModelSpec model, const PipelineOptions& options);

ScheduleCandidate candidate_of(const Plan& plan);

// All candidates. The fastest usable one is marked.
struct LookedAt {
  std::vector<ScheduleCandidate> candidates;
  std::string time_unit;
  bool measured = false;  // true: times were measured; false: estimated
};
LookedAt look_at_all(ModelSpec model, const PipelineOptions& options);

// Returns "" if every stage computes weight gradients in microbatch order. Another order would
// change the floating-point sums.
std::string order_of_sums_violation(const Program& program);

}  // namespace sluice::detail
