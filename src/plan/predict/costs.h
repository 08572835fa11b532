#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/error.h"
#include "sluice/simulate.h"

namespace sluice {

// Parses the JSON of docs/simulate.md. Throws Error(kInput) for a bad text.
Costs parse_costs_json(std::string_view text, const std::string& file_name);

// Changes the costs of `stages`, whose backward B cannot be split into the input gradient (I) and
// the weight gradient (W). I then costs as much as B, and W costs nothing.
Costs add_unsplit_costs(Costs costs, int num_stages, const std::vector<int>& stages);

}  // namespace sluice

namespace sluice::detail {

// Limit for numbers in files, so that their sums stay finite.
inline constexpr double kMostCost = 1e30;
inline constexpr const char* kMostRemedy = "write at most 1e30";

// Throws Error(kUsage), or Error(kInput) for costs of a file, for wrong list sizes, for costs that
// are negative or not finite, and for speeds of 0.
void require_fitting(const Costs& costs, const Program& program);
Error wrong_costs(const Costs& costs, const std::string& what, const std::string& remedy);

}  // namespace sluice::detail
