// Searches for the order of a step's compute actions with the shortest makespan under given costs.
//
// The effort is bounded by a count of timed instructions and the random numbers are seeded. Equal
// inputs therefore give equal results in every process.
//
// In the result, the F, the I or B, and the W or B of every stage run in microbatch order, so
// gradients are summed in the same order as in other such schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/schedule.h"
#include "sluice/simulate.h"

namespace sluice {

struct SearchOptions {
  // Limit per rank in bytes, for the held_bytes of its stages plus kept_bytes of live microbatches
  // (StageCosts). No limit if empty.
  std::optional<double> max_bytes = {};
  // Additional starting orders. The result is at least as fast as each start that fits into memory
  // and runs in microbatch order.
  std::vector<Schedule> starts = {};
  // Number of instructions to time.
  std::int64_t effort = 20'000'000;
  std::uint64_t seed = 1;
};

// The units of the costs are those of simulate.h. The search ignores UNSHARD, reductions and the
// update. The schedule's name is "searched". Returns nothing if no order fits into max_bytes.
// Throws Error(kUsage) for a stage without a rank, for fewer than one microbatch and for costs of
// another number of stages.
std::optional<Schedule> search_schedule(const StageMap& stage_map, int num_microbatches,
                                        const Costs& costs, const SearchOptions& options = {});

}  // namespace sluice
