// Plans for commands that start no run. Warnings go to stderr.
#pragma once

#include "config/run_config.h"
#include "sluice/plan.h"

namespace sluice {

// Also calls require_tokenizer() and warns if this machine has too little memory.
Plan make_warned_plan(const RunConfig& config, const MeasuredMachine* measured = nullptr);

// Prints the plan to stdout, then its warnings to stderr.
void print_plan(const Plan& plan, bool json);

// Call this after the result is printed, so that a failing command prints only its error. Throws
// like finish_stdout().
void print_warnings(const Plan& plan);

}  // namespace sluice
