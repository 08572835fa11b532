// The plan of a command that starts nothing, with what is doubtful about it on stderr.
//
// Owns: the lines "sluice: warning: ...". Does not own: the plan. Thread-safety: for the main
// thread.
#pragma once

#include "config/run_config.h"
#include "sluice/plan.h"

namespace sluice {

// plan_of_config() and require_tokenizer(), and a warning if this machine has too little memory.
Plan make_warned_plan(const RunConfig& config, const MeasuredMachine* measured = nullptr);

// The plan on stdout, for people or as JSON; then its warnings.
void print_plan(const Plan& plan, bool json);

// A line for each warning, once stdout has taken the result: a command that fails says only why.
// Throws what finish_stdout() throws.
void print_warnings(const Plan& plan);

}  // namespace sluice
