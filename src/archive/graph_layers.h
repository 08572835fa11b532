// Divides an exported graph into layers. A layer is a run of nodes of one block, or of one module
// that the user named. Free layers depend only on inputs, constants and sizes. Each stage that
// reads their values computes them.
//
// Invariants:
// 1. Each node that a result or buffer needs is in one layer, in order, unless the node is free or
//    a symbolic number.
// 2. No cut separates a tensor from a later write to it or its views, or divides a higher-order
//    operator. If a node writes to a buffer or batch input, one layer has all nodes that read it.
// 3. Modules named in GraphCuts do not change other layers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "archive/exported_graph.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct GraphCuts {
  // Class of the blocks, with or without its Python module. If empty, blocks are the elements of
  // the outermost module lists.
  std::string layer_class;
  // Modules that become separate layers, even inside a block. The caller must check the names.
  std::vector<std::string> modules;
};

// Each node has a separate value for a parameter that it reads, so that gradients are summed in the
// same order for all cuts.
struct GraphUse {
  int value = -1;       // value of the graph's input
  std::string name;     // full name, or "NAME@1" for a later use
  std::string of;       // name in ExportedGraph::tensors
  std::string tied_to;  // name of the first use, or ""
};

struct GraphLayer {
  std::string name;
  LayerRole role = LayerRole::kBlock;
  std::string class_name;
  std::vector<std::string> modules;  // outermost modules entirely in this layer
  std::vector<int> nodes;
  std::vector<int> reads, writes;
  // Values that several nodes of this layer, and another block, read.
  std::vector<int> shared;
  std::vector<GraphUse> parameters;
  std::vector<int> held;  // values of buffers and constants
  // Parameters that no node reads. The last layer has them, frozen, to complete checkpoints.
  std::vector<std::string> unread;
};

struct GraphLayers {
  std::vector<GraphLayer> layers, free;
  std::vector<std::string> value_names;  // by value
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<bool> is_free;     // by node
  std::vector<bool> is_written;  // by value: whether a node writes to it in place
};

// `wanted` lists the needed results ("logits"). Throws Error(kUsage) if no module has the class,
// and Error(kInput) if a result is missing or no tensor.
GraphLayers layers_of(const ExportedGraph& graph, const GraphModule& module, const GraphCuts& cuts,
                      const std::vector<std::string>& wanted);

std::vector<std::string> modules_of_class(const GraphModule& module, const std::string& name);

}  // namespace sluice::detail
