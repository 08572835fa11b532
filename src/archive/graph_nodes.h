// Facts of one node of an exported graph: its operator, the values that it reads and writes.
//
// Owns: these facts. Does not own: the table of operators (family/aten_table.h), layers
// (graph_layers.h).
// Thread-safety: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// "linear" of "aten.linear.default"; "_operator.mul" stays whole.
std::string_view operator_of(const GraphNode& node);

// Values in the order of the arguments and results, as often as they are there.
std::vector<int> values_of(const GraphArgument& argument);
std::vector<int> values_read(const GraphNode& node);
std::vector<int> values_written(const GraphNode& node);

// Arguments that the operator writes, with every tensor of a written list. Running statistics count
// unless the node is in evaluation mode.
std::vector<int> values_changed(const GraphNode& node);
// Arguments whose storage the results may share.
std::vector<int> values_shared(const GraphNode& node, const GraphModule& module);

bool draws_random_numbers(const GraphNode& node);

}  // namespace sluice::detail
