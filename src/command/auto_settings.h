// What the keys that are "auto" became in a run.
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

// The parts of a run that decide what "auto" becomes.
struct AutoParts {
  const RunConfig& config;
  const Plan& plan;
  const TokenData& data;
  const ResumePoint& resume;
  const LocalRanks& ranks;
};

// {"training.device", "cpu"}, in the order of the key table. Keys with another value are left out,
// and so are keys of data that the rows do not need, such as the chat template of rows without
// messages.
std::vector<std::pair<std::string, std::string>> auto_settings(const AutoParts& of);

// "auto:", then a line for each setting: "  data.format = text". "" if no key is "auto".
std::string auto_text(const AutoParts& of);

}  // namespace sluice
