// What the thread of one rank does in a run: build, load, step, save.
// Thread-safety: one call a rank, each on its own thread.
#pragma once

#include <cstdint>
#include <string>

#include "job/process_run.h"
#include "sluice/parts/transport.h"

namespace sluice {

// "rank 1 (stages 1, 2)"
std::string place_of_rank(const Plan& plan, int rank);

// Collective over all ranks of the run. Returns the number of steps done. When steps fail, leaves
// trainer and last instructions in the run; memory that runs out between instructions is named with
// what the rank was doing.
std::int64_t run_rank(ProcessRun& run, Transport& transport);

}  // namespace sluice
