#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// `stack` has KEY,PATH,CLASS for every module, outermost first, separated by ';'.
std::vector<ModuleCall> module_calls(const std::string& stack);

// Returns the innermost frame outside torch of a Python stack trace ("modeling_llama.py:123"), or
// "".
std::string source_of(const std::string& trace);

}  // namespace sluice::detail
