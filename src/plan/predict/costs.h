// Costs against the program that they are for.
#pragma once

#include "sluice/error.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Throws Error(kUsage), or Error(kInput) naming the file that they were read from: a list of the
// wrong size, a cost that is negative or not finite, a speed of 0.
void require_fitting(const Costs& costs, const Program& program);
Error wrong_costs(const Costs& costs, const std::string& what, const std::string& remedy);

}  // namespace sluice::detail
