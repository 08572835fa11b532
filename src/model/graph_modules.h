#pragma once

#include <vector>

#include "graph/graph_program.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

Model graph_model(const ModelSpec& model, const std::vector<GraphOperator>& operators = {});

// Returns a contiguous CPU tensor. Throws Error(kInput) if the file has changed or lacks the bytes.
at::Tensor read_graph_tensor(const ExportedGraph& graph, const GraphTensor& tensor);

}  // namespace sluice::detail
