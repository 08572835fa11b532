#pragma once

#include "config/run_config.h"
#include "sluice/plan.h"

namespace sluice {

// Calls plan_of_config() and require_tokenizer(), and warns if this machine has too little memory.
Plan make_warned_plan(const RunConfig& config, const MeasuredMachine* measured = nullptr);

void print_plan(const Plan& plan, bool json);

// Call after printing the result, so that a failing command prints only its error. Throws like
// finish_stdout().
void print_warnings(const Plan& plan);

}  // namespace sluice
