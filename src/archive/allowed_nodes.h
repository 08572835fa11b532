// The nodes that an exported graph may run.
//
// A graph comes from a file that may be hostile. It may run operators of ATen that have a row in
// the table (family/aten_table.h), arithmetic with symbolic numbers, and operators that the program
// gives.
// Owns: the refusal. Does not own: the table.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// Why the node may not run; "": it may. given: names of the operators that the program gives
// ("sluice::my_op"). Operators of the namespace sluice pass even if the program gives none of that
// name: a plan needs no operator, and a run refuses it when it builds its layers.
std::string refusal_of(const GraphNode& node, const std::vector<std::string>& given);

// Throws Error(kInput) with the place of the first node that may not run, of either graph.
void require_allowed_nodes(const ExportedGraph& graph, const std::vector<std::string>& given);

}  // namespace sluice::detail
