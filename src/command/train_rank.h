#pragma once

#include <cstdint>

#include "command/process_run.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Builds, loads, trains and saves on one rank, on its own thread. Collective over all ranks.
// Returns the number of steps done. If steps fail, leaves trainer and last instructions in `run`.
// If memory runs out between instructions, the error names what the rank was doing.
std::int64_t train_rank(ProcessRun& run, Transport& transport);

}  // namespace sluice
