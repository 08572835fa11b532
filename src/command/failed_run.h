// The end of a run that fails, or in which a rank hangs.
//
// Owns: what is worth keeping of it, and what its user needs to see besides the error.
// Does not own: the records (forensics.h), the last weights (saves.h), the judgement that a rank
// hangs (hang_watch.h).
// Thread-safety: for the thread that runs the ranks; the watch calls its options on its own.
#pragma once

#include <optional>

#include "command/hang_watch.h"
#include "command/process_run.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Saves the last weights and tells the user. Others may be busy for long before they can help to
// keep it: where there are others, the error is told first. has_told: it was, before all ranks had
// ended.
void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure,
                  bool has_told);

// A rank that hangs is named, and ends the run over `endpoint`; has_told: set when the user has
// been told of that. All outlive the watch.
HangWatchOptions hang_watch_options(ProcessRun& run, Transport& endpoint, bool& has_told);

}  // namespace sluice
