// Searches for the order of forwards and backwards with the shortest makespan.
//
// Equal inputs give equal results: random numbers are seeded, and the effort is a number of steps,
// not a time.
//
// All stages run microbatches in order, so gradients are accumulated as in other schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/schedule.h"
#include "sluice/simulate.h"

namespace sluice {

struct SearchOptions {
  // Memory limit per rank, in bytes, for StageCosts::held_bytes of its stages and kept_bytes of
  // microbatches in flight.
  std::optional<double> max_bytes = {};
  // Schedules to improve, besides list schedules. The result is no slower than those of them that
  // fit and run in microbatch order.
  std::vector<Schedule> starts = {};
  // Limit of the search: how many forwards and backwards to time.
  std::int64_t effort = 20'000'000;
  std::uint64_t seed = 1;
};

// Costs have the units of simulate.h. UNSHARD, reductions and the update are ignored. Returns
// nothing if no order fits into memory. Throws Error(kUsage) for a stage without a rank, no
// microbatch, or costs of another number of stages.
std::optional<Schedule> search_schedule(const StageMap& stage_map, int num_microbatches,
                                        const Costs& costs, const SearchOptions& options = {});

}  // namespace sluice
