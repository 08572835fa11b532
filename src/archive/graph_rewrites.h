// Rewrites a graph so that its numeric results do not depend on the cuts.
#pragma once

#include <set>
#include <string_view>

#include "archive/exported_graph.h"
#include "archive/graph_layers.h"

namespace sluice::detail {

// Gives each node that reads a parameter a separate value for it.
void split_parameter_uses(GraphModule& module);

// Returns values that are neither parameters nor computed by a layer.
std::set<int> free_values(const GraphModule& module, const GraphLayers& layers);

// If a layer computes an attention mask, uses the math kernel, so that results are equal bit for
// bit. LibTorch selects the kernel by whether the mask requires a gradient, which differs between
// the two forwards of a recomputed layer.
void use_math_attention_for_layer_masks(GraphModule& module, const GraphLayers& layers);

std::string_view exported_target(const GraphNode& node);

}  // namespace sluice::detail
