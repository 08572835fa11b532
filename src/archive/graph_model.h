// An exported graph as the plan's model: layers, values, parameters, costs at the sizes of a
// microbatch.
//
// Owns: ModelSpec of a graph, which symbol is the rows, the length, or another named size.
// Does not own: where layers begin (graph_layers.h), what an operator costs
// (family/aten_operators.h).
// Thread-safety: values; pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/exported_graph.h"
#include "archive/graph_layers.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct GraphOptions {
  GraphCuts cuts;
  // The result that is the loss; "": what the archive says, else the causal loss of "logits".
  std::string loss_output;
  // Else a graph that says of no result that it is the loss is described with all its results.
  bool needs_loss = true;
  // Other named sizes than rows and length ("decoder_length"), of sizes_by_name(); those that are
  // not here are as long as when the graph was exported.
  std::map<std::string, std::int64_t> sizes;
  std::string products;  // as Precision::products
  // Names of the operators that the program gives ("sluice::my_op").
  std::vector<std::string> operators;
  // Whether a graph with nodes that may not run is described all the same, to show them.
  bool allows_refused = false;
};

// The parts of a loss.
struct GraphLoss {
  std::string output;  // "logits": the causal loss of them; "": not known, nor needed
  std::string count;   // the result that says how much it counts; "": rows, or counted labels
  bool is_sum = false;
  bool is_causal() const { return output == "logits"; }
};

// A graph with its layers, for the plan and for the run. Immutable; shared by ranks that are
// threads.
struct GraphOfModel {
  detail::ExportedGraph graph;
  detail::GraphLayers layers;
  detail::GraphLoss loss;
  std::string rows_symbol, length_symbol;  // "": a number in the graph
  // The graph of model.eval(), where it is another: with the same tensors, and the graph in the
  // place of `graph.training`. Null: this one.
  std::shared_ptr<const GraphOfModel> evaluation;
  bool is_evaluation = false;  // of another's `evaluation`
};

// Throws as layers_of() and require_allowed_nodes(), and Error(kUsage) for a loss_output that the
// graph does not have.
std::shared_ptr<const GraphOfModel> graph_of_model(ExportedGraph graph,
                                                   const GraphOptions& options);

bool has_weights(const ExportedGraph& graph);

// The microbatch that was exported.
MicrobatchShape exported_shape(const GraphOfModel& model);

// {"decoder_length=64"}. Throws Error(kUsage) for other texts, and for a name that is there twice.
std::map<std::string, std::int64_t> sizes_by_name(const std::vector<std::string>& texts);

// The sizes of a microbatch by symbol. Throws Error(kUsage) for a size that the graph was not
// exported for, for one that the archive does not name, and for rows or a length among `others`.
SymbolValues sizes_of(const GraphOfModel& model, const MicrobatchShape& shape,
                      const std::map<std::string, std::int64_t>& others);

// Costs are those at this shape, without a dependence on it. Throws as sizes_of().
// With its evaluation, where that is another graph.
ModelSpec describe_graph(std::shared_ptr<const GraphOfModel> model, const GraphOptions& options,
                         const MicrobatchShape& shape);

}  // namespace sluice::detail
