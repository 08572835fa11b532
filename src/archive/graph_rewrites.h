// Rewrites of a graph that make its numeric results independent of the cuts.
#pragma once

#include <set>
#include <string_view>

#include "archive/exported_graph.h"
#include "archive/graph_layers.h"

namespace sluice::detail {

// Gives each node that reads a parameter its own value for it.
void split_parameter_uses(GraphModule& module);

// Values that are neither parameters nor computed by a layer.
std::set<int> free_values(const GraphModule& module, const GraphLayers& layers);

// LibTorch selects the attention kernel by whether the mask requires a gradient. That differs
// between the two forwards of a recomputed layer. If a layer computes the mask, the attention
// therefore uses the math kernel, for equal bits.
void use_math_attention_for_layer_masks(GraphModule& module, const GraphLayers& layers);

std::string_view exported_target(const GraphNode& node);

}  // namespace sluice::detail
