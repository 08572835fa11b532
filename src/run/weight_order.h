// In which order a stage's weight gradients are finished.
#pragma once

#include <vector>

#include "sluice/parts/action.h"

namespace sluice {

// True when the row of a rank finishes the weight gradients of `stage` (B, W) in another order of
// microbatches than its input gradients (B, I).
bool weight_order_differs(const std::vector<Action>& row, int stage);

}  // namespace sluice
