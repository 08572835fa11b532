#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace sluice {

// Loads and checks the configuration of a command such as ("train", "run.toml",
// "--training.steps=3"), so that an error is reported once and before any process starts. Needs
// neither LibTorch nor this machine's properties. Returns nothing for unknown options. Throws like
// load_run_config() and plan_of_config().
std::optional<RunConfig> launched_config(const std::vector<std::string>& command,
                                         int num_processes);

// Checks the configuration of `train` or `eval` before LibTorch is loaded. Skips pipes, which
// cannot be read twice.
void check_named_config(const std::vector<std::string>& command);

}  // namespace sluice
