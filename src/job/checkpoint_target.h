// Where a run saves a step, and what the manifest says of the run.
// Thread-safety: const members of the run may be read by any rank's thread.
#pragma once

#include <cstdint>

#include "sluice/parts/saver.h"

namespace sluice {

struct ProcessRun;

SaveTarget checkpoint_target(const ProcessRun& run, std::int64_t step);

}  // namespace sluice
