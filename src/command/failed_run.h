// The end of a run that fails, or in which a rank hangs.
//
// Owns: keeping the last weights and records of the run, and the report to its user besides the
// error.
// Does not own: the records (forensics.h), the last weights (saves.h), the judgement that a rank
// hangs (hang_watch.h).
// Thread-safety: for the thread that runs the ranks; the watch calls its options on its own.
#pragma once

#include <optional>

#include "command/hang_watch.h"
#include "command/process_run.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"
#include "sluice/plan.h"

namespace sluice {

// An error of a rank that ran out of memory, which also has the memory that was predicted for it;
// any other as it is. failure: that of the rank.
Error with_predicted_memory(const Plan& plan, const Error& error,
                            const std::optional<Failure>& failure);

// Saves the last weights and reports to the user. Other processes may be busy for long before they
// can help with the save: if there are others, the error is reported first. has_told: it was
// reported before all ranks had ended.
void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure,
                  bool has_told);

// Options of a watch that names a rank that hangs, and ends the run over `endpoint`. has_told: set
// when this was reported to the user. All arguments outlive the watch.
HangWatchOptions hang_watch_options(ProcessRun& run, Transport& endpoint, bool& has_told);

}  // namespace sluice
