// Whether a run can write what it is to write.
// Thread-safety: pure functions, but for a look at the folders.
#pragma once

#include "sluice/plan.h"
#include "sluice/run_config.h"

namespace sluice {

// Throws Error(kCheckpoint / kUsage) unless a checkpoint fits into checkpoint.folder and
// metrics.folder can be written. Leaves nothing behind.
void require_outputs(const RunConfig& config, const Plan& plan);

}  // namespace sluice
