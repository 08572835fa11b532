// Builders of the named schedules, one file each, which names the paper and shows a timeline.
//
// Builders receive a shape that make_schedule() has checked, with stages_per_rank resolved. They
// fill `rows` of the result of start() in time linear in the grid's size.
#pragma once

#include "sluice/schedule.h"

namespace sluice::detail {

inline constexpr int kMostRanks = 1 << 16;

// Creates a schedule with placed stages and one empty row per rank.
Schedule start(std::string name, Placement placement, const ScheduleShape& shape);

Schedule build_gpipe(const ScheduleShape& shape);
Schedule build_1f1b(const ScheduleShape& shape);
Schedule build_interleaved_1f1b(const ScheduleShape& shape);
Schedule build_looped_bfs(const ScheduleShape& shape);
Schedule build_interleaved_zero_bubble(const ScheduleShape& shape);
Schedule build_zbv_zero_bubble(const ScheduleShape& shape);
// Throws Error(kUsage) for fewer microbatches than stages.
Schedule build_dual_pipe_v(const ScheduleShape& shape);

}  // namespace sluice::detail
