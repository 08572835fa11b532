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
  // If empty, uses the loss that the archive names, or the causal loss of "logits".
  std::string loss_output;
  // If false, a graph without a known loss keeps all its results.
  bool needs_loss = true;
  // Sizes other than rows and length ("decoder_length"). Missing ones have their value from export.
  std::map<std::string, std::int64_t> sizes;
  std::string products;
  std::vector<std::string> operators;
  // Describes graphs with forbidden nodes too.
  bool allows_refused = false;
};

struct GraphLoss {
  std::string output;  // "logits": their causal loss; "": no loss
  std::string count;   // weights the loss; "": rows or counted labels
  bool is_sum = false;
  bool is_causal() const { return output == "logits"; }
};

// Immutable, so ranks in threads of one process share it.
struct GraphOfModel {
  detail::ExportedGraph graph;
  detail::GraphLayers layers;
  detail::GraphLoss loss;
  std::string rows_symbol, length_symbol;  // "" for a fixed number
  // Set if model.eval() gives another graph, which is its `graph.training`. Tensors are the same.
  std::shared_ptr<const GraphOfModel> evaluation;
  bool is_evaluation = false;
};

// Throws the errors of layers_of() and require_allowed_nodes(), and Error(kUsage) for an unknown
// loss_output.
std::shared_ptr<const GraphOfModel> graph_of_model(ExportedGraph graph,
                                                   const GraphOptions& options);

bool has_weights(const ExportedGraph& graph);

MicrobatchShape exported_shape(const GraphOfModel& model);

// Parses "decoder_length=64". Throws Error(kUsage) for other texts.
std::map<std::string, std::int64_t> sizes_by_name(const std::vector<std::string>& texts);

// Returns sizes by symbol. Throws Error(kUsage) for unsupported sizes, unknown names, and rows or
// length in `others`.
SymbolValues sizes_of(const GraphOfModel& model, const MicrobatchShape& shape,
                      const std::map<std::string, std::int64_t>& others);

// The costs hold only for this shape. Throws sizes_of()'s errors.
ModelSpec describe_graph(std::shared_ptr<const GraphOfModel> model, const GraphOptions& options,
                         const MicrobatchShape& shape);

}  // namespace sluice::detail
