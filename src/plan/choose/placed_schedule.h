// A schedule by name for stages that are placed. Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::detail {

// The options that an error is about, "" where none was given: that of the name, and that which has
// placed the stages.
struct ScheduleOptions {
  std::string name, places;
};

// Throws what make_schedule() throws, and Error(kUsage) for stages that lie along the pipeline in
// another way than the schedule's.
Schedule placed_schedule(const ScheduleName& name, const StageMap& stage_map, int num_microbatches,
                         const ScheduleOptions& said);

// "[0, 1, 1, 0]".
std::string list_text(const std::vector<int>& list);

}  // namespace sluice::detail
