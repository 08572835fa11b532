// Searches for the order of a step's compute actions with the shortest makespan.
//
// Equal inputs give equal results: the effort is a number of timed instructions, and random numbers
// are seeded.
//
// All stages run microbatches in order, so gradients are summed as in other schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/schedule.h"
#include "sluice/simulate.h"

namespace sluice {

struct SearchOptions {
  // Bytes per rank for its stages' held_bytes and live microbatches' kept_bytes (StageCosts).
  std::optional<double> max_bytes = {};
  // Additional starts. The result is no slower than any start that fits and runs in microbatch
  // order.
  std::vector<Schedule> starts = {};
  // In timed instructions.
  std::int64_t effort = 20'000'000;
  std::uint64_t seed = 1;
};

// Costs have the units of simulate.h. UNSHARD, reductions and the update are ignored. Returns
// nothing if no order fits into memory. Throws Error(kUsage) for stages without a rank, no
// microbatch, or costs of another number of stages.
std::optional<Schedule> search_schedule(const StageMap& stage_map, int num_microbatches,
                                        const Costs& costs, const SearchOptions& options = {});

}  // namespace sluice
