// The steps of one rank: data, rate, step, validation, what is logged, when to stop.
// Thread-safety: one call a rank, each on its own thread.
#pragma once

#include <cstdint>
#include <string>

#include "job/process_run.h"
#include "job/rank_saves.h"
#include "sluice/parts/group.h"
#include "sluice/trainer.h"

namespace sluice {

// Collective over all ranks of the run. Every process reads the batches of its ranks
// itself (run.batches), and every rank decides alike when to log and when to stop. Begins after the
// step that the run goes on from. Returns the number of steps done, with those before. doing: kept
// up to date, for the message of memory that runs out between instructions.
std::int64_t run_steps(ProcessRun& run, Pipeline& pipeline, Trainer& trainer, RankSaves& saves,
                       std::string& doing);

}  // namespace sluice
