// One answer for all processes of a run to what the plan has to know of the machine: they have to
// plan alike.
// Thread-safety: for the main thread.
#pragma once

#include "comm/process_job.h"
#include "sluice/run_config.h"

namespace sluice {

// Collective over the processes: the first measures what the plan goes by (depends_on_machine()),
// the others get its numbers. Throws what measure_machine() throws, and Error(kPeer).
MeasuredMachine measured_once(const RunConfig& config, ProcessJob& processes);

}  // namespace sluice
