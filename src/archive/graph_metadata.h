// Where a node of a graph comes from, as its metadata has it.
//
// Owns: reading these texts. Does not own: nodes (graph_json.cpp).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// stack: KEY,PATH,CLASS of every module, outermost first, with ';' between them.
std::vector<ModuleCall> module_calls(const std::string& stack);

// "modeling_llama.py:123": the line that sluice's exporter has kept, or the innermost frame outside
// torch of a trace of Python; "" where there is none.
std::string source_of(const std::string& trace);

}  // namespace sluice::detail
