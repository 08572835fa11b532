// Looped BFS: several stages per rank, breadth first.
// Lamy-Poirier, "Breadth-First Pipeline Parallelism", 2022, https://arxiv.org/abs/2211.05953
//
// 2 ranks, 4 microbatches. Rank 0 has stages 0 and 2, rank 1 has 1 and 3. Lower
// case is the second stage:
//
//   rank 0  F0 F1 F2 F3 f0 f1 f2 f3          b3    b2    b1    b0    B3    B2    B1    B0
//   rank 1     F0 F1 F2 F3 f0 f1 f2 f3 b3    b2    b1    b0    B3    B2    B1    B0
//
// A stage runs all microbatches in a row, so sharded parameters are gathered once. All activations
// are live at once.
#include "plan/schedules/builders.h"

namespace sluice::detail {

Schedule build_looped_bfs(const ScheduleShape& shape) {
  Schedule schedule = start("LoopedBFS", Placement::kLoop, shape);
  const int ranks = shape.num_ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& row = schedule.rows[rank];
    const int wait = 2 * (ranks - 1 - rank);
    const std::size_t forwards = static_cast<std::size_t>(shape.stages_per_rank) *
                                 static_cast<std::size_t>(shape.num_microbatches);
    row.reserve(static_cast<std::size_t>(rank + wait) + 2 * forwards);

    row.resize(static_cast<std::size_t>(rank));
    for (int local = 0; local < shape.stages_per_rank; ++local) {
      for (int mb = 0; mb < shape.num_microbatches; ++mb) {
        row.push_back(Action::forward(local * ranks + rank, mb));
      }
    }
    row.resize(row.size() + static_cast<std::size_t>(wait));
    for (int local = shape.stages_per_rank - 1; local >= 0; --local) {
      for (int mb = shape.num_microbatches - 1; mb >= 0; --mb) {
        row.push_back(Action::backward(local * ranks + rank, mb));
      }
    }
  }
  return schedule;
}

}  // namespace sluice::detail
