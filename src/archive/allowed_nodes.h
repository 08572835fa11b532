// Refuses graphs with operators that an exported graph may not run.
//
// A graph may come from a hostile file. It may run ATen operators of the table
// (family/aten_table.h), arithmetic with symbolic numbers, and operators of the program.
// Owns: the refusal. Does not own: the table.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// The reason why the node of the module may not run, or "". given: names of the program's operators
// ("sluice::my_op"). Every operator of the namespace sluice passes, since a plan needs no
// operators. A run refuses unknown ones when it builds its layers.
std::string refusal_of(const GraphNode& node, const GraphModule& module,
                       const std::vector<std::string>& given);

// Throws Error(kInput) with the place of the first node that may not run, in training or
// evaluation.
void require_allowed_nodes(const ExportedGraph& graph, const std::vector<std::string>& given);

}  // namespace sluice::detail
