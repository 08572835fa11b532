// ZBV: zero bubble on a V of stages.
// Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 6, https://arxiv.org/abs/2401.10241
//
// Rank r has stages r and 2p - 1 - r. The first rank has the last stage, so its loss gradient
// crosses no pipeline. 2 ranks, 3 microbatches. Lower case is the second stage:
//
//   rank 0  F0 F1 F2 f0 i0 w0 f1 i1 w1 I0 W0 f2 i2 w2 I1 W1 I2 W2
//   rank 1     F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 I1 i2 I2 W1 w2 W2
//
// If F = I = W, only the ramps have bubbles. Every rank keeps as many activations as the first rank
// of 1F1B.
#include <algorithm>

#include "plan/schedules/builders.h"

namespace sluice::detail {
namespace {

// Builds a rank's actions. Chunks 0 and 1 are its first and second stage. The method requires 2p -
// 1 microbatches on p ranks. With fewer, the slots of missing ones stay empty.
class ZbvRow {
 public:
  ZbvRow(const ScheduleShape& shape, int rank, std::vector<Action>& row)
      : num_microbatches_(shape.num_microbatches),
        stage_{rank, 2 * shape.num_ranks - 1 - rank},
        row_(row) {}

  void forward(int chunk) { append(ActionKind::kForward, chunk, forwards_[chunk]++); }
  void input(int chunk) { append(ActionKind::kBackwardInput, chunk, inputs_[chunk]++); }
  void weight(int chunk) { append(ActionKind::kBackwardWeight, chunk, weights_[chunk]++); }
  void input_and_weight(int chunk) {
    input(chunk);
    weight(chunk);
  }

  int forwards(int chunk) const { return forwards_[chunk]; }
  bool owes_weight(int chunk) const { return weights_[chunk] < inputs_[chunk]; }

 private:
  void append(ActionKind kind, int chunk, int microbatch) {
    row_.push_back(microbatch < num_microbatches_ ? Action::make(kind, stage_[chunk], microbatch)
                                                  : Action());
  }

  int num_microbatches_;
  int stage_[2];
  int forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
  std::vector<Action>& row_;
};

}  // namespace

Schedule build_zbv_zero_bubble(const ScheduleShape& shape) {
  Schedule schedule = start("ZBVZeroBubble", Placement::kV, shape);
  const int ranks = shape.num_ranks;
  const int planned = std::max(2 * ranks - 1, shape.num_microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& cells = schedule.rows[rank];
    cells.reserve(static_cast<std::size_t>(rank) + 6 * static_cast<std::size_t>(planned));
    cells.resize(static_cast<std::size_t>(rank));
    ZbvRow row(shape, rank, cells);

    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) row.forward(0);
    for (int i = 0; i < rank; ++i) {
      row.forward(1);
      row.forward(0);
    }
    for (int i = 0; i < ranks - rank; ++i) {
      row.forward(1);
      row.input_and_weight(1);
    }
    while (row.forwards(1) < row.forwards(0) || row.forwards(0) < planned) {
      if (row.forwards(0) < planned) row.forward(0);
      row.input_and_weight(0);
      row.forward(1);
      row.input_and_weight(1);
    }
    // Input gradients, which other ranks need, come before weight gradients.
    for (int i = 0; i < rank; ++i) {
      row.input(0);
      row.input(1);
    }
    for (int i = 0; i < ranks - rank; ++i) row.input_and_weight(0);
    while (row.owes_weight(1)) row.weight(1);
    while (row.owes_weight(0)) row.weight(0);
  }
  return schedule;
}

}  // namespace sluice::detail
