// Exported graphs may come from hostile files. Allows only the ATen operators of
// family/aten_table.h, arithmetic on symbolic numbers, and custom operators of the program.
#pragma once

#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// Returns why the node may not run, or "". `given` lists the program's custom operators
// ("sluice::my_op"). The namespace sluice always passes, because planning needs no implementation.
std::string refusal_of(const GraphNode& node, const GraphModule& module,
                       const std::vector<std::string>& given);

void require_allowed_nodes(const ExportedGraph& graph, const std::vector<std::string>& given);

}  // namespace sluice::detail
