// Options --emit and --layout of split, plan and schedule.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "report/peer_layout.h"
#include "sluice/error.h"

namespace sluice {

inline constexpr const char* kLayoutHelp =
    "split as in another trainer: Megatron's layout \"Et*2|(t*2|)*2tL\", or JSON lists of modules";
inline constexpr const char* kClusterHelp = "not built yet: a machine by file or name";
inline constexpr const char* kLayerCostsHelp =
    "costs of layers measured elsewhere (JSON): F, I, W, B, bytes by name or class";
const char* emit_help();

// Throws Error(kUsage) for an unknown trainer.
void require_trainer(const std::string& trainer);

// Makes --layout and each of these options exclude each other.
std::vector<OptionRule> layout_rules(const std::vector<const char*>& others);

// Adds the place "--layout" to errors of `call` without one.
template <typename Call>
auto at_layout(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.kind(),
                {.what = error.fact(), .where = "--layout", .remedy = error.remedy()});
  }
}

}  // namespace sluice
