// The counters of this machine that tell why steps take longer (report/pace_watch.h).
// Thread-safety: pure but for reading the system.
#pragma once

#include "report/pace_watch.h"

namespace sluice {

// Numbers of /proc/stat, /proc/vmstat and /proc/cpuinfo. What the system does not say is 0. The
// processes of a run on this machine are taken to be as busy as this one.
MachineState machine_state();

}  // namespace sluice
