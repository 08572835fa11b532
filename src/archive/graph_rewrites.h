// Rewrites a graph so that its numeric results do not depend on where it is cut into layers.
#pragma once

#include <set>
#include <string_view>

#include "archive/exported_graph.h"
#include "archive/graph_layers.h"

namespace sluice::detail {

// Gives each node that reads a parameter a separate value for it.
void split_parameter_uses(GraphModule& module);

// Returns the values that are neither parameters nor computed by a layer.
std::set<int> free_values(const GraphModule& module, const GraphLayers& layers);

// Makes attention use the math kernel if a layer computes its mask. LibTorch otherwise chooses the
// kernel by whether the mask requires a gradient. That differs between the first and the second
// forward of a recomputed layer, and so would the results.
void use_math_attention_for_layer_masks(GraphModule& module, const GraphLayers& layers);

std::string_view exported_target(const GraphNode& node);

}  // namespace sluice::detail
