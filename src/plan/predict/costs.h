// Costs against the program that they are for.
#pragma once

#include "sluice/error.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// The most that a cost or size in a file may be: sums of many stay finite.
inline constexpr double kMostCost = 1e30;
inline constexpr const char* kMostRemedy = "write at most 1e30";

// Throws Error(kUsage), or Error(kInput) naming the file that they were read from: a list of the
// wrong size, a cost that is negative or not finite, a speed of 0.
void require_fitting(const Costs& costs, const Program& program);
Error wrong_costs(const Costs& costs, const std::string& what, const std::string& remedy);

}  // namespace sluice::detail
