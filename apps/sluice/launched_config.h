#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace sluice {

// Loads and checks the configuration of a command such as ("train", "run.toml",
// "--training.steps=3") before its processes start, so that an error is reported once. Checks only
// what needs neither LibTorch nor this machine. Returns nothing for options that are unknown here.
// Throws like load_run_config() and plan_of_config().
std::optional<RunConfig> launched_config(const std::vector<std::string>& command,
                                         int num_processes);

// Throws the errors of load_run_config() for `train` and `eval` before LibTorch is loaded. Skips a
// pipe, which cannot be read twice.
void check_named_config(const std::vector<std::string>& command);

}  // namespace sluice
