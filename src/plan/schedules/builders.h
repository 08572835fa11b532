// The builders of every schedule: one file each beside this one, with the paper and a drawing.
//
// Owns: nothing; the table that names them is in schedule.cpp.
// A builder gets a shape that make_schedule() has checked (counts in range, stages_per_rank
// resolved) and fills `rows` and `num_microbatches`'s worth of actions in time linear in the size
// of the grid. `start()` gives it everything else.
// Thread-safety: pure functions.
#pragma once

#include "sluice/schedule.h"

namespace sluice::detail {

inline constexpr int kMostRanks = 1 << 16;  // of a schedule

// A schedule of the shape with its stages placed and one empty row a rank.
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
