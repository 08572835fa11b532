// Builds a named schedule for stages that are already assigned to ranks.
#pragma once

#include <string>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::detail {

// Options that error messages name, for the schedule and for the placement. "" if not set.
struct ScheduleOptions {
  std::string name, places;
};

// Throws make_schedule()'s errors, and Error(kUsage) if the schedule groups stages differently from
// `stage_map`.
Schedule placed_schedule(const ScheduleName& name, const StageMap& stage_map, int num_microbatches,
                         const ScheduleOptions& said);

// Returns "[0, 1, 1, 0]".
std::string list_text(const std::vector<int>& list);

}  // namespace sluice::detail
