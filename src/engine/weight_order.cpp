#include "engine/weight_order.h"

namespace sluice {

bool must_hold_early_weights(const std::vector<Action>& row, int stage) {
  std::vector<int> inputs, weights;
  auto note = [&](const Action& action) {
    if (action.stage != stage) return;
    if (action.kind != ActionKind::kForward && action.kind != ActionKind::kBackwardWeight) {
      inputs.push_back(action.microbatch);
    }
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) {
      weights.push_back(action.microbatch);
    }
  };
  for (const Action& action : row) {
    const bool reduces_one = action.kind == ActionKind::kReduceGrad && action.microbatch >= 0;
    if (reduces_one && action.stage == stage) return true;
    if (action.kind == ActionKind::kOverlap) {
      note(action.overlap_backward());
    } else if (is_compute(action.kind)) {
      note(action);
    }
  }
  return inputs != weights;
}

}  // namespace sluice
