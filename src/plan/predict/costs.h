#pragma once

#include "sluice/error.h"
#include "sluice/simulate.h"

namespace sluice::detail {

// Limit for numbers in files, so that their sums stay finite.
inline constexpr double kMostCost = 1e30;
inline constexpr const char* kMostRemedy = "write at most 1e30";

// Throws Error(kUsage), or Error(kInput) for costs of a file, for wrong list sizes, for costs that
// are negative or not finite, and for speeds of 0.
void require_fitting(const Costs& costs, const Program& program);
Error wrong_costs(const Costs& costs, const std::string& what, const std::string& remedy);

}  // namespace sluice::detail
