// Costs against the program that they are for.
#pragma once

#include "sluice/simulate.h"

namespace sluice::detail {

// Throws Error(kUsage): a list of the wrong size, a cost that is negative or not finite, a speed of
// 0.
void require_fitting(const Costs& costs, const Program& program);

}  // namespace sluice::detail
