#pragma once

#include <string_view>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// Returns "linear" for "aten.linear.default", but "_operator.mul" unchanged.
std::string_view operator_of(const GraphNode& node);

std::vector<int> values_of(const GraphArgument& argument);
std::vector<int> values_read(const GraphNode& node);
std::vector<int> values_written(const GraphNode& node);

// Returns arguments that the operator writes to, including all tensors of a list. Running
// statistics count except in evaluation mode.
std::vector<int> values_changed(const GraphNode& node);
std::vector<int> values_shared(const GraphNode& node, const GraphModule& module);

bool draws_random_numbers(const GraphNode& node);

}  // namespace sluice::detail
