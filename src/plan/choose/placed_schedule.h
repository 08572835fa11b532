// Builds a named schedule for stages that already have ranks.
#pragma once

#include <string>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::detail {

// The options to blame in an error, "" if not given: the one that named the schedule and the one
// that placed the stages.
struct ScheduleOptions {
  std::string name, places;
};

// Throws what make_schedule() throws, and Error(kUsage) if the schedule places its stages in
// another pattern than `stage_map`.
Schedule placed_schedule(const ScheduleName& name, const StageMap& stage_map, int num_microbatches,
                         const ScheduleOptions& said);

// Formats as "[0, 1, 1, 0]".
std::string list_text(const std::vector<int>& list);

}  // namespace sluice::detail
