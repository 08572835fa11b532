#pragma once

#include "report/pace_watch.h"

namespace sluice {

// Counters of /proc that explain slow steps (report/pace_watch.h), 0 if unavailable. Assumes that
// the run's other processes on this machine are as busy as this one.
MachineState machine_state();

}  // namespace sluice
