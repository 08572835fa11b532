// The command that continues a run that was stopped.
// Thread-safety: pure functions but for looking at the configuration's file.
#pragma once

#include <string>

#include "config/run_config.h"
#include "launch/launch_environment.h"

namespace sluice {

// "sluice train run.toml --checkpoint.resume auto", with the overrides of this run. Under another
// launcher such as torchrun, only says what to add to the command.
std::string continue_command(const RunConfig& config, const LaunchEnvironment& launched);

}  // namespace sluice
