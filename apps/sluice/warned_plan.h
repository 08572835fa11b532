// The plan of a command that starts nothing, with what is doubtful about it on stderr.
//
// Owns: the lines "sluice: warning: ...". Does not own: the plan. Thread-safety: for the main
// thread.
#pragma once

#include "sluice/plan.h"

namespace sluice {

// make_plan(), and a warning when this machine has too little memory for it; prints every warning.
Plan make_warned_plan(const RunConfig& config);

}  // namespace sluice
