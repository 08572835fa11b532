// Checks exported graphs, which may come from hostile files. Allowed are the ATen operators of
// family/aten_table.h, arithmetic on symbolic numbers, and custom operators that the program
// registered.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// Returns why the node may not run, or "". `given` lists the program's custom operators
// ("sluice::my_op"). Those in the namespace sluice are always allowed, because planning needs no
// implementation.
std::string refusal_of(const GraphNode& node, const GraphModule& module,
                       const std::vector<std::string>& given);

void require_allowed_nodes(const ExportedGraph& graph, const std::vector<std::string>& given);

}  // namespace sluice::detail
