#pragma once

#include <string>

#include "config/run_config.h"
#include "launch/launch_environment.h"

namespace sluice {

// The command that continues a stopped run, such as "sluice train run.toml --checkpoint.resume
// auto". Includes this run's overrides. Under another launcher such as torchrun, it only describes
// what to add.
std::string continue_command(const RunConfig& config, const LaunchEnvironment& launched);

}  // namespace sluice
