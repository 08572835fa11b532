#pragma once

#include "report/pace_watch.h"

namespace sluice {

// Reads /proc/stat, /proc/vmstat and /proc/cpuinfo, which explain slow steps (report/pace_watch.h).
// Unavailable values are 0. Assumes that the run's other processes on this machine are as busy as
// this one.
MachineState machine_state();

}  // namespace sluice
