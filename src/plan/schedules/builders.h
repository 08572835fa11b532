// Builders of the named schedules, for shapes that make_schedule() has checked. In the timelines, B
// takes as long as I and W together, or as two F.
#pragma once

#include "sluice/schedule.h"

namespace sluice::detail {

inline constexpr int kMostRanks = 1 << 16;

// Places the stages. The ranks have no actions yet.
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
