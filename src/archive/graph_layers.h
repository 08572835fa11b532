// An exported graph as a list of layers: which nodes are one, what they read and write, what no
// stage has.
//
// Owns: names of layers, what they read and write. Does not own: reading the archive
// (exported_graph.h), where the graph may be cut (graph_flow.h), blocks (graph_units.h), names of
// uses of parameters (graph_uses.h), costs (graph_model.h), running (src/graph).
//
// A layer is a run of nodes of one module: of a block where there are blocks, or of a module that
// is named. Free layers depend on inputs, constants and sizes alone: they are on no stage, and
// whoever reads what they write computes it. Symbolic numbers are in no layer: they follow from the
// sizes of what a layer reads.
//
// Invariants:
//  1. every node that is neither free nor a symbolic number, and that a result or a buffer needs,
//  is in one layer, in order; no layer has others;
//  2. no cut is between a tensor and a later write into it or into a view of it, nor between the
//     nodes that read a buffer or an input of the batch which a node writes, nor inside a
//     higher-order operator;
//  3. layers do not depend on the names in GraphCuts, but that a named module is a layer of its
//  own.
// Thread-safety: values; pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "archive/exported_graph.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// The options that decide where layers begin.
struct GraphCuts {
  // The class of the blocks ("LlamaDecoderLayer", or with its module's name before it). "":
  // elements of lists, the outermost ones.
  std::string layer_class;
  // Modules that are layers of their own, also inside a block. Names that no node has are left to
  // whoever looks for them.
  std::vector<std::string> modules;
};

// One use of a parameter: every node that reads it has one, with a value of its own, so that
// gradients add up alike wherever the graph is cut.
struct GraphUse {
  int value = -1;       // of the graph's input
  std::string name;     // full name: the parameter's own, or of a later use "NAME@1"
  std::string of;       // the parameter in ExportedGraph::tensors
  std::string tied_to;  // full name of the first use, "" if this is it
};

struct GraphLayer {
  std::string name;
  LayerRole role = LayerRole::kBlock;
  std::string class_name;
  std::vector<std::string> modules;  // paths of the modules that it holds whole, outermost ones
  std::vector<int> nodes;            // in order
  // Tensors by their values: of the batch, of free layers, of earlier layers; what later layers or
  // the outputs read.
  std::vector<int> reads, writes;
  // Those of `reads` that another block reads too, and several nodes here.
  std::vector<int> shared;
  std::vector<GraphUse> parameters;
  std::vector<int> held;  // buffers and constants that it reads, by their values
  // Names of parameters that no node reads: the last layer has them, frozen, so that a checkpoint
  // has the whole model.
  std::vector<std::string> unread;
};

struct GraphLayers {
  std::vector<GraphLayer> layers, free;
  std::vector<std::string> value_names;  // by value: of tensors that layers read and write
  std::vector<std::string> inputs;       // names of the batch's inputs that are tensors
  std::vector<std::string> outputs;      // values that were asked for, by `wanted`
  std::vector<bool> is_free;             // by node
  std::vector<bool> is_written;          // by value: a node writes its storage in place
};

// wanted: names of results that are needed ("logits"). Throws Error(kUsage) for a class that no
// module has, with the nearest, and Error(kInput) for a result that the graph does not have, or
// that is no tensor.
GraphLayers layers_of(const ExportedGraph& graph, const GraphModule& module, const GraphCuts& cuts,
                      const std::vector<std::string>& wanted);

// Paths of the modules of a class, in order; empty: there is none.
std::vector<std::string> modules_of_class(const GraphModule& module, const std::string& name);

}  // namespace sluice::detail
