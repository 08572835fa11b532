// Builds a named schedule for stages that already have ranks.
#pragma once

#include <string>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::detail {

// Options to blame in errors: for the schedule and for the placement. "" if not given.
struct ScheduleOptions {
  std::string name, places;
};

// Throws make_schedule()'s errors, and Error(kUsage) if the schedule places stages in another
// pattern.
Schedule placed_schedule(const ScheduleName& name, const StageMap& stage_map, int num_microbatches,
                         const ScheduleOptions& said);

// "[0, 1, 1, 0]".
std::string list_text(const std::vector<int>& list);

}  // namespace sluice::detail
