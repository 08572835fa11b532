#pragma once

#include <cstdint>

#include "command/process_run.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Collective over all ranks, each on its own thread. If a step fails, moves the rank's objects to
// run.interrupted.
std::int64_t train_rank(ProcessRun& run, Transport& transport);

}  // namespace sluice
