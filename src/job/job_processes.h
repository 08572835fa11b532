// A command's run in one process or several: settings of the connection, and failures that all
// processes end with, of which one tells the user.
// Thread-safety: pure functions, but for what the processes tell each other.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "comm/process_job.h"
#include "sluice/job.h"
#include "sluice/run_config.h"

namespace sluice {

// Throws Error(kUsage) for a transport that does not fit the processes.
ProcessJobOptions job_options(const RunConfig& config, int num_ranks);

// Calls. What it throws is told to all processes, and becomes what all of them take for the cause:
// an Error in the one that tells the user, ToldElsewhere in the others.
void told_to_all(ProcessJob& processes, const std::function<void()>& call);

}  // namespace sluice
