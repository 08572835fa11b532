#pragma once

#include "report/pace_watch.h"

namespace sluice {

// Returns counters from /proc that explain slow steps (report/pace_watch.h), or 0 for unavailable
// ones.
MachineState machine_state();

}  // namespace sluice
