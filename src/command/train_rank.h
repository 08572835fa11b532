#pragma once

#include <cstdint>

#include "command/process_run.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Collective over all ranks, each on its own thread. If steps fail, leaves trainer and last
// instructions in `run`.
std::int64_t train_rank(ProcessRun& run, Transport& transport);

}  // namespace sluice
