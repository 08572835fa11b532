// A schedule that is looked for: the order of a step's compute actions with the shortest makespan
// that can be found under given costs.
//
// Owns: the search. Does not own: proof (verify.h) and prediction (simulate.h), which are those of
// every other schedule. Bounded by a number of instructions that are looked at, never by a clock,
// and with random numbers of its own: equal questions have equal answers in every process.
//
// Invariant of what is found: the F, the I and B, and the W and B of every stage are in the order
// of the microbatches, so that gradients add up as in every other such schedule. Thread-safety:
// pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/schedule.h"
#include "sluice/simulate.h"

namespace sluice {

struct SearchOptions {
  // The bytes of a rank at most: held_bytes of its stages and kept_bytes of what is live
  // (StageCosts). None: no limit.
  std::optional<double> max_bytes = {};
  // Orders to begin with, beside those of list scheduling: what is found is at least as fast as
  // those of them that fit and are in the order of the microbatches.
  std::vector<Schedule> starts = {};
  // Instructions that are looked at.
  std::int64_t effort = 20'000'000;
  std::uint64_t seed = 1;
};

// For stages where the map has them. Units of costs as in simulate.h; UNSHARD, reductions and the
// update are not looked at. None: no order fits into max_bytes. The name is "searched". Throws
// Error(kUsage) for a map with a stage that lives nowhere, fewer than one microbatch, and costs of
// another number of stages.
std::optional<Schedule> search_schedule(const StageMap& stage_map, int num_microbatches,
                                        const Costs& costs, const SearchOptions& options = {});

}  // namespace sluice
