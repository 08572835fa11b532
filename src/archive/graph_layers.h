// Divides an exported graph into layers. A layer is a run of nodes of one block, or of one module
// that the user named. Free layers depend only on inputs, constants and sizes. Each stage that
// reads their values computes them itself.
//
// Invariants:
// 1. Each node on which a result or buffer depends is in one layer, in order. Exceptions are nodes
//    of free layers and of symbolic numbers.
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
  // Modules that become separate layers, even inside a block. The caller must check that they
  // exist.
  std::vector<std::string> modules;
};

// Each node that reads a parameter gets a separate value for it, a use. Gradients of uses are
// summed in the same order for all cuts.
struct GraphUse {
  int value = -1;       // number of the value, which is an input of the graph
  std::string name;     // full name; a later use has the name "NAME@1"
  std::string of;       // name of the parameter in ExportedGraph::tensors
  std::string tied_to;  // name of the parameter's first use, or ""
};

struct GraphLayer {
  std::string name;
  LayerRole role = LayerRole::kBlock;
  std::string class_name;
  std::vector<std::string> modules;  // outermost modules that are entirely in this layer
  std::vector<int> nodes;
  std::vector<int> reads, writes;
  // Values that several nodes of this layer and also another block read.
  std::vector<int> shared;
  std::vector<GraphUse> parameters;
  std::vector<int> held;  // values of buffers and constants
  // Parameters that no node reads. The last layer has them, frozen, so that checkpoints are
  // complete.
  std::vector<std::string> unread;
};

struct GraphLayers {
  std::vector<GraphLayer> layers, free;
  std::vector<std::string> value_names;  // indexed by value
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<bool> is_free;     // indexed by node
  std::vector<bool> is_written;  // indexed by value: whether a node writes to it in place
};

// `wanted` lists the needed results ("logits"). Throws Error(kUsage) if no module has the class of
// `cuts`, and Error(kInput) if a result is missing or no tensor.
GraphLayers layers_of(const ExportedGraph& graph, const GraphModule& module, const GraphCuts& cuts,
                      const std::vector<std::string>& wanted);

std::vector<std::string> modules_of_class(const GraphModule& module, const std::string& name);

}  // namespace sluice::detail
