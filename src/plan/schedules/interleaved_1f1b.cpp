// Interleaved 1F1B: several stages per rank, depth first.
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", 2021, https://arxiv.org/abs/2104.04473
//
// 2 ranks, 4 microbatches. Rank 0 has stages 0 and 2, rank 1 has 1 and 3. Lower
// case is the second stage:
//
//   rank 0  F0 F1 f0 f1 F2    b0    F3 b1    f2 B0    f3 B1       b2       b3    B2    B3
//   rank 1     F0 F1 f0 b0    f1 b1    F2 B0    F3 B1    f2 b2    f3 b3    B2    B3
//
// The bubble is 1F1B's divided by the number of stages per rank.
#include <algorithm>

#include "plan/schedules/builders.h"
#include "plan/schedules/rounds.h"

namespace sluice::detail {

Schedule build_interleaved_1f1b(const ScheduleShape& shape) {
  Schedule schedule = start("Interleaved1F1B", Placement::kLoop, shape);
  const Rounds rounds = make_rounds(shape);
  const int ranks = shape.num_ranks;
  const int total = static_cast<int>(rounds.forward.size());
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& row = schedule.rows[rank];
    const auto forward = [&](int op) {
      const RoundStep& step = rounds.forward[op];
      row.push_back(Action::forward(step.local_stage * ranks + rank, step.microbatch));
    };
    const auto backward = [&](int op) {
      const RoundStep& step = rounds.backward[op];
      row.push_back(Action::backward(step.local_stage * ranks + rank, step.microbatch));
    };

    const int warmup = warmup_forwards(shape, rounds, rank, /*per_hop=*/2);
    // Wait for the first gradient from the last stage.
    const int first_backward = shape.stages_per_rank * ranks + 2 * (ranks - 1 - rank);
    const int wait = warmup > 0 ? std::max(0, first_backward - (warmup + rank)) : 0;
    row.reserve(2 * rounds.forward.size() + static_cast<std::size_t>(rank) +
                static_cast<std::size_t>(wait) + static_cast<std::size_t>(warmup));

    row.resize(static_cast<std::size_t>(rank));
    for (int op = 0; op < warmup; ++op) forward(op);
    row.resize(row.size() + static_cast<std::size_t>(wait));
    for (int op = warmup; op < total; ++op) {
      forward(op);
      backward(op - warmup);
    }
    for (int op = total - warmup; op < total; ++op) {
      row.emplace_back();
      backward(op);
    }
  }
  return schedule;
}

}  // namespace sluice::detail
