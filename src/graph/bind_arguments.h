// Arguments of a node, in the types of the operator's schema.
//
// Owns: what Python's binding converts on the way: whole numbers to floats, numbers to tensors that
// take part in arithmetic as numbers, one number to a list of so many, tensors to optional tensors.
// Does not own: which values have slots (graph_program.h).
// Thread-safety: pure functions.
#pragma once

#include <ATen/core/function_schema.h>

#include <unordered_map>

#include "graph/graph_call.h"

namespace sluice::detail {

struct ValueSlots {
  const GraphModule& module;
  const std::unordered_map<int, int>& slots;  // by value
};

// All arguments of the schema, in its order. Throws Error(kInput) at `call.place` for an argument
// that the schema does not know, one that is missing and has no default, one of another type;
// Error(kInternal) for a value without a slot.
void bind_arguments(const GraphNode& node, const ValueSlots& values,
                    const c10::FunctionSchema& schema, GraphCall& call);

// Those of the node, as written.
void bind_as_written(const GraphNode& node, const ValueSlots& values, GraphCall& call);

}  // namespace sluice::detail
