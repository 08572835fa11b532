#pragma once

#include <string>

#include "config/run_config.h"
#include "job/launch_environment.h"

namespace sluice {

// Returns the command that continues a stopped run with the same overrides, such as "sluice train
// run.toml --checkpoint.resume auto". Under other launchers, returns "the same command with
// --checkpoint.resume auto".
std::string continue_command(const RunConfig& config, const LaunchEnvironment& launched);

}  // namespace sluice
