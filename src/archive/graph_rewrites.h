// Changes to a graph after it was read, so that its numbers do not depend on cuts.
// Thread-safety: values; pure functions.
#pragma once

#include <set>
#include <string_view>

#include "archive/exported_graph.h"
#include "archive/graph_layers.h"

namespace sluice::detail {

// Every node that reads a parameter gets a value of its own for it.
void give_each_use_a_value(GraphModule& module);

// Values that are neither a parameter nor made by a layer.
std::set<int> free_values(const GraphModule& module, const GraphLayers& layers);

// LibTorch chooses the kernel of an attention by whether its mask needs a gradient, which it does
// not where a forward runs without a graph, as that of a layer which runs twice. Attentions whose
// mask is of a layer become the written one, so that the bits do not depend on that.
void settle_attention(GraphModule& module, const GraphLayers& layers);

// The operator of the node as it was exported.
std::string_view exported_target(const GraphNode& node);

}  // namespace sluice::detail
