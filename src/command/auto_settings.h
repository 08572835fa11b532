#pragma once

#include <string>
#include <utility>
#include <vector>

#include "command/processes.h"
#include "command/resume.h"
#include "config/run_config.h"
#include "sluice/data.h"
#include "sluice/plan.h"

namespace sluice {

struct AutoParts {
  const RunConfig& config;
  const Plan& plan;
  const TokenData& data;
  const ResumePoint& resume;
  const LocalRanks& ranks;
};

// Returns the values that replaced "auto", such as {"training.device", "cpu"}, in key-table order.
// Leaves out keys that the data do not need.
std::vector<std::pair<std::string, std::string>> auto_settings(const AutoParts& of);

// Returns "auto:" and a line per setting, such as "  data.format = text", or "".
std::string auto_text(const AutoParts& of);

}  // namespace sluice
