#include "warned_plan.h"

#include <iostream>
#include <optional>

#include "config/machine_memory.h"

namespace sluice {

Plan make_warned_plan(const RunConfig& config) {
  Plan plan = make_plan(config);
  if (const std::optional<Error> shortage = memory_shortage(plan, machine_memory_bytes())) {
    plan.warnings.push_back(shortage->what());
  }
  for (const std::string& warning : plan.warnings) {
    std::cerr << "sluice: warning: " << warning << "\n";
  }
  return plan;
}

}  // namespace sluice
