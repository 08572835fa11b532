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
  // Name of the loss output. If empty, uses the loss that the archive names, or the causal loss of
  // "logits".
  std::string loss_output;
  // If false, a graph without a known loss is accepted, with all of its results.
  bool needs_loss = true;
  // Sizes by name, other than rows and length ("decoder_length"). Sizes that are not listed have
  // their value from export.
  std::map<std::string, std::int64_t> sizes;
  std::string products;
  std::vector<std::string> operators;
  // If true, also describes graphs with forbidden nodes.
  bool allows_refused = false;
};

struct GraphLoss {
  std::string output;  // name of the loss output; "logits": their causal loss; "": no loss
  std::string count;   // value that weights the loss; "": rows or counted labels
  bool is_sum = false;
  bool is_causal() const { return output == "logits"; }
};

// An exported graph with its layers. Immutable, so that ranks in threads of one process can share
// it.
struct GraphOfModel {
  detail::ExportedGraph graph;
  detail::GraphLayers layers;
  detail::GraphLoss loss;
  std::string rows_symbol, length_symbol;  // size symbols; "" if the size is a fixed number
  // Set if model.eval() gives another graph: `evaluation->graph.training` is that graph, with the
  // same tensors.
  std::shared_ptr<const GraphOfModel> evaluation;
  bool is_evaluation = false;
};

// Throws the errors of layers_of() and require_allowed_nodes(), and Error(kUsage) for an unknown
// loss_output.
std::shared_ptr<const GraphOfModel> graph_of_model(ExportedGraph graph,
                                                   const GraphOptions& options);

bool has_weights(const ExportedGraph& graph);

MicrobatchShape exported_shape(const GraphOfModel& model);

// Parses texts such as "decoder_length=64".
std::map<std::string, std::int64_t> sizes_by_name(const std::vector<std::string>& texts);

// Returns the value of each size symbol. Throws Error(kUsage) for sizes that the graph does not
// support, and if `others` has unknown names, rows or length.
SymbolValues sizes_of(const GraphOfModel& model, const MicrobatchShape& shape,
                      const std::map<std::string, std::int64_t>& others);

// Returns a description whose costs hold only for `shape`. Throws the errors of sizes_of().
ModelSpec describe_graph(std::shared_ptr<const GraphOfModel> model, const GraphOptions& options,
                         const MicrobatchShape& shape);

}  // namespace sluice::detail
