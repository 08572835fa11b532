#include "emit_option.h"

#include "base/text.h"

namespace sluice {

const char* emit_help() {
  static const std::string text =
      "print the settings of another trainer instead: " + join(peer_trainers(), ", ");
  return text.c_str();
}

void require_trainer(const std::string& trainer) { reads_schedule_csv(trainer); }

std::vector<OptionRule> layout_rules(const std::vector<const char*>& others) {
  std::vector<OptionRule> rules;
  rules.reserve(others.size());
  for (const char* other : others) {
    rules.push_back({{"--layout", other},
                     {},
                     "--layout and " + std::string(other) + " exclude each other",
                     "give one of them"});
  }
  return rules;
}

}  // namespace sluice
