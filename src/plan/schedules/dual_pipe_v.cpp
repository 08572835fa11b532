// DualPipeV: on ZBV's placement, pairs forwards and backwards of different microbatches, so that
// one's communication overlaps the other's compute.
// DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, https://arxiv.org/abs/2412.19437, and
// https://github.com/deepseek-ai/DualPipe, which names the phases below.
//
// 2 ranks, 4 microbatches. Lower case is the second stage, F|b an overlapped pair:
//
//   rank 0  F0 F1 F2 f0 i0 w0 f1 F3|b1       f2|B0    b2       f3|B1    b3    I2 W2 I3 W3
//   rank 1     F0 f0 F1 f1 F2 b0    f2|B0    F3|b1    f3|B1    b2    B2       i3 I3 w3 W3
//
// With fewer microbatches than stages, phase 4 would have a negative length.
#include <vector>

#include "base/format.h"
#include "plan/schedules/builders.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Builds a rank's actions. Chunks 0 and 1 are its first and second stage. In the phases below, F0
// is a forward of chunk 0.
class DualPipeRow {
 public:
  DualPipeRow(const ScheduleShape& shape, int rank, std::vector<Action>& row)
      : stage_{rank, 2 * shape.num_ranks - 1 - rank}, row_(row) {}

  void forward(int chunk) { row_.push_back(next_forward(chunk)); }

  void pair(int forward_chunk, int backward_chunk) {
    const Action forward_part = next_forward(forward_chunk);
    row_.push_back(Action::overlap(forward_part, next_backward(backward_chunk)));
  }

  // If `split` is true, leaves the weight gradient to weight().
  void backward(int chunk, bool split) {
    Action action = next_backward(chunk);
    if (split) {
      action.kind = ActionKind::kBackwardInput;
      owed_.push_back(action);
    }
    row_.push_back(action);
  }

  // Computes the oldest missing weight gradient, if any.
  void weight() {
    if (paid_ == owed_.size()) return;
    const Action& input = owed_[paid_++];
    row_.push_back(Action::backward_weight(input.stage, input.microbatch));
  }

 private:
  Action next_forward(int chunk) { return Action::forward(stage_[chunk], forwards_[chunk]++); }
  Action next_backward(int chunk) { return Action::backward(stage_[chunk], backwards_[chunk]++); }

  int stage_[2];
  int forwards_[2] = {}, backwards_[2] = {};
  std::vector<Action> owed_;
  std::size_t paid_ = 0;
  std::vector<Action>& row_;
};

}  // namespace

Schedule build_dual_pipe_v(const ScheduleShape& shape) {
  const int ranks = shape.num_ranks;
  if (shape.num_microbatches < 2 * ranks) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted(
                     "DualPipeV needs at least as many microbatches as stages, {}, but got {}",
                     2 * ranks, shape.num_microbatches),
                 .remedy = "use more microbatches, or ZBVZeroBubble"});
  }
  Schedule schedule = start("DualPipeV", Placement::kV, shape);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& cells = schedule.rows[rank];
    cells.reserve(4 * static_cast<std::size_t>(shape.num_microbatches) +
                  2 * static_cast<std::size_t>(ranks));
    DualPipeRow row(shape, rank, cells);
    const int below = ranks - 1 - rank;

    // Phase 1: F0
    for (int i = 0; i < 2 * below; ++i) row.forward(0);
    // Phase 2: F0 F1
    for (int i = 0; i <= rank; ++i) {
      row.forward(0);
      row.forward(1);
    }
    // Phase 3: I1 W1 F1
    for (int i = 0; i < below; ++i) {
      row.backward(1, /*split=*/true);
      row.weight();
      row.forward(1);
    }
    // Phase 4: F0-B1 F1-B0, overlapped. Starting the last rank without overlap shortens its bubble.
    for (int i = 0; i < shape.num_microbatches - 2 * ranks + rank + 1; ++i) {
      if (i == 0 && below == 0) {
        row.forward(0);
        row.backward(1, /*split=*/false);
      } else {
        row.pair(0, 1);
      }
      row.pair(1, 0);
    }
    // Phase 5: B1 F1-B0
    for (int i = 0; i < below; ++i) {
      row.backward(1, /*split=*/false);
      row.pair(1, 0);
    }
    // Phase 6: B1 B0, split in the second half. On odd ranks the second stage splits first.
    const int half = (rank + 1) / 2;
    const bool odd = rank % 2 == 1;
    for (int i = 0; i <= rank; ++i) {
      row.backward(1, odd ? i >= half : i > half);
      row.backward(0, i >= half);
    }
    // Phase 7: W I0
    for (int i = 0; i < below; ++i) {
      row.weight();
      row.backward(0, /*split=*/true);
    }
    // Phase 8: W
    for (int i = 0; i <= rank; ++i) row.weight();
  }
  return schedule;
}

}  // namespace sluice::detail
