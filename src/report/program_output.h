#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

Json verify_json(const VerifyReport& report);
Json simulation_json(const Simulation& simulation);
Json rows_json(const Program& program, const std::vector<std::vector<Action>>& rows);

// `place` is "cell" or "instruction", whichever violations index.
std::string verify_text(const VerifyReport& report, const std::string& place);
std::string simulation_text(const Simulation& simulation);
// Returns "12.3% less than", "under 0.1% less than" or "as much as". Precondition: time <= other.
std::string comparison_text(double time, double other);

}  // namespace sluice
