// GPipe: all forwards, then all backwards.
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// 2019, https://arxiv.org/abs/1811.06965
//
// 4 ranks, 4 microbatches:
//
//   rank 0  F0 F1 F2 F3                            B0    B1    B2    B3
//   rank 1     F0 F1 F2 F3                   B0    B1    B2    B3
//   rank 2        F0 F1 F2 F3          B0    B1    B2    B3
//   rank 3           F0 F1 F2 F3 B0    B1    B2    B3
//
// Every rank keeps all activations. The bubble's share is (p - 1) / (m + p - 1).
#include "plan/schedules/builders.h"

namespace sluice::detail {

Schedule build_gpipe(const ScheduleShape& shape) {
  Schedule schedule = start("GPipe", Placement::kLoop, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    std::vector<Action>& row = schedule.rows[rank];
    row.reserve(2 * static_cast<std::size_t>(shape.num_microbatches));
    for (int mb = 0; mb < shape.num_microbatches; ++mb) row.push_back(Action::forward(rank, mb));
    for (int mb = 0; mb < shape.num_microbatches; ++mb) row.push_back(Action::backward(rank, mb));
  }
  return schedule;
}

}  // namespace sluice::detail
