// In which order a stage's weight gradients are finished.
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "sluice/parts/action.h"

namespace sluice {

// True if weight gradients that an I of `stage` has computed have to wait for its W: the row of the
// rank finishes the weight gradients (B, W) in another order of microbatches than the input
// gradients (B, I), or reduces those of one microbatch by themselves.
bool must_hold_early_weights(const std::vector<Action>& row, int stage);

}  // namespace sluice
