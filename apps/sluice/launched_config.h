// The part of a configuration that the launcher reads before it starts anything. Thread-safety:
// for the main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace sluice {

// The configuration of `command` ("train", "run.toml", "--training.steps=3", ..), checked as far as
// that needs neither LibTorch nor this machine: what every process would refuse is refused once,
// and at once. num_processes: of the job. Throws what load_run_config() and plan_of_config() throw.
// Nothing where the command has options that are not known here: the processes refuse them, or not.
std::optional<RunConfig> launched_config(const std::vector<std::string>& command,
                                         int num_processes);

// Throws the errors of load_run_config() for `train` and `eval` before LibTorch is loaded. Does
// nothing for a pipe, which cannot be read twice.
void check_named_config(const std::vector<std::string>& command);

}  // namespace sluice
