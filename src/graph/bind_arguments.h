// Binds a node's arguments to an operator's schema. Converts like torch's Python binding, for
// example an integer to a float.
#pragma once

#include <ATen/core/function_schema.h>

#include <unordered_map>

#include "graph/graph_call.h"

namespace sluice::detail {

struct ValueSlots {
  const GraphModule& module;
  const std::unordered_map<int, int>& slots;  // graph value -> slot
};

// Throws Error(kInput) at `call.place` for an unknown, missing or mistyped argument.
void bind_arguments(const GraphNode& node, const ValueSlots& values,
                    const c10::FunctionSchema& schema, GraphCall& call);

// For functions without a schema.
void bind_as_written(const GraphNode& node, const ValueSlots& values, GraphCall& call);

}  // namespace sluice::detail
