// 1F1B: after a warm-up, forwards alternate with backwards of older microbatches.
// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training" (PipeDream-Flush), 2021,
// https://arxiv.org/abs/2006.09503
//
// 4 ranks, 6 microbatches:
//
//   rank 0  F0 F1 F2 F3                   B0    F4 B1    F5 B2       B3       B4       B5
//   rank 1     F0 F1 F2             B0    F3 B1    F4 B2    F5 B3       B4       B5
//   rank 2        F0 F1       B0    F2 B1    F3 B2    F4 B3    F5 B4       B5
//   rank 3           F0 B0    F1 B1    F2 B2    F3 B3    F4 B4    F5 B5
//
// As fast as GPipe, but rank r keeps activations of at most p - r microbatches.
#include <algorithm>

#include "plan/schedules/builders.h"

namespace sluice::detail {

Schedule build_1f1b(const ScheduleShape& shape) {
  Schedule schedule = start("1F1B", Placement::kLoop, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    std::vector<Action>& row = schedule.rows[rank];
    row.reserve(2 * static_cast<std::size_t>(shape.num_microbatches));
    const int warmup = std::min(shape.num_ranks - rank - 1, shape.num_microbatches);
    int backward = 0;
    for (int mb = 0; mb < warmup; ++mb) row.push_back(Action::forward(rank, mb));
    for (int mb = warmup; mb < shape.num_microbatches; ++mb) {
      row.push_back(Action::forward(rank, mb));
      row.push_back(Action::backward(rank, backward++));
    }
    while (backward < shape.num_microbatches) row.push_back(Action::backward(rank, backward++));
  }
  return schedule;
}

}  // namespace sluice::detail
