// The command that continues a run that was stopped.
// Thread-safety: pure functions but for looking at the configuration's file.
#pragma once

#include <string>

#include "config/run_config.h"
#include "launch/launch_environment.h"

namespace sluice {

// "sluice train run.toml --checkpoint.resume auto", with the overrides that were given. Where the
// command is not known, as under torchrun, what has to be added to it.
std::string continue_command(const RunConfig& config, const LaunchEnvironment& launched);

}  // namespace sluice
