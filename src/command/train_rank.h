// The work of one rank's thread in a run: build, load, step, save.
// Thread-safety: one call a rank, each on its own thread.
#pragma once

#include <cstdint>

#include "command/process_run.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Collective over all ranks of the run. Returns the number of steps done. When steps fail, leaves
// trainer and last instructions in the run; memory that runs out between instructions is named with
// what the rank was doing.
std::int64_t train_rank(ProcessRun& run, Transport& transport);

}  // namespace sluice
