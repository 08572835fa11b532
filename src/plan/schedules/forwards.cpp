// Forwards only. In step t, stage s runs microbatch t - s. Deeper stages of a rank run first.
//
//   t        0    1    2    3
//   rank 0   0F0  0F1  0F2
//   rank 1        1F0  1F1  1F2
//
// A stage's input is made one step earlier, so any placement works.
#include <algorithm>

#include "sluice/schedule.h"

namespace sluice {

Schedule make_forward_schedule(const StageMap& stage_map, int num_microbatches) {
  Schedule schedule;
  schedule.name = "forwards";
  schedule.num_microbatches = num_microbatches;
  schedule.stage_map = stage_map;
  const int num_stages = stage_map.num_stages();
  for (int rank = 0; rank < stage_map.num_ranks(); ++rank) {
    std::vector<int> stages = stage_map.stages_of(rank);
    std::reverse(stages.begin(), stages.end());
    std::vector<Action>& row = schedule.rows.emplace_back();
    for (int t = 0; t < num_stages + num_microbatches - 1; ++t) {
      for (const int stage : stages) {
        const int microbatch = t - stage;
        if (microbatch >= 0 && microbatch < num_microbatches)
          row.push_back(Action::forward(stage, microbatch));
      }
    }
  }
  return schedule;
}

}  // namespace sluice
