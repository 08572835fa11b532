#pragma once

#include "report/pace_watch.h"

namespace sluice {

// Counters from /proc that explain slow steps (report/pace_watch.h), or 0 if unavailable.
MachineState machine_state();

}  // namespace sluice
