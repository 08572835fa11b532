#pragma once

#include <optional>

#include "command/hang_watch.h"
#include "command/process_run.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"
#include "sluice/plan.h"

namespace sluice {

Error with_predicted_memory(const Plan& plan, const Error& error,
                            const std::optional<Failure>& failure);

// With several processes, reports before saving, because the others may take long to join the save.
void close_failed(ProcessRun& run, const Error& error, const std::optional<Failure>& failure,
                  bool has_reported);

HangWatchOptions hang_watch_options(ProcessRun& run, Transport& endpoint, bool& has_reported);

}  // namespace sluice
