// Checks costs against the program that they belong to.
#pragma once

#include "sluice/error.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// The largest cost or size that a file may contain, so that sums stay finite.
inline constexpr double kMostCost = 1e30;
inline constexpr const char* kMostRemedy = "write at most 1e30";

// Throws Error(kUsage), or Error(kInput) naming the file that the costs were read from. Rejects
// lists of the wrong size, negative or infinite costs, and a speed of 0.
void require_fitting(const Costs& costs, const Program& program);
Error wrong_costs(const Costs& costs, const std::string& what, const std::string& remedy);

}  // namespace sluice::detail
