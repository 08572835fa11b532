// Ends a run that fails or in which a rank hangs. Saves the last weights and the flight records,
// and reports to the user.
#pragma once

#include <optional>

#include "command/hang_watch.h"
#include "command/process_run.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"
#include "sluice/plan.h"

namespace sluice {

// Adds the rank's predicted memory to an out-of-memory error. Returns other errors unchanged.
Error with_predicted_memory(const Plan& plan, const Error& error,
                            const std::optional<Failure>& failure);

// Saves the last weights and reports the failure. If there are other processes, it reports first,
// because they may be busy for a long time before they can join the save. `has_told`: the failure
// was already reported.
void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure,
                  bool has_told);

// Options for a watch that reports a hanging rank and ends the run through `endpoint`. Sets
// `has_told` after reporting. All arguments must outlive the watch.
HangWatchOptions hang_watch_options(ProcessRun& run, Transport& endpoint, bool& has_told);

}  // namespace sluice
