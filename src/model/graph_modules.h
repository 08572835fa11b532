// An exported graph as a model that runs: one layer a layer of the plan.
//
// Owns: modules with the graph's parameters and buffers under their own names, their forward, the
// loss, initial values from the archive. Does not own: nodes that run (graph_program.h), where
// layers begin (archive/graph_layers.h).
// Thread-safety: as Model.
#pragma once

#include <vector>

#include "graph/graph_program.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// model: of describe_graph(), perhaps with parameters that were frozen since. Parameters have the
// values of the archive where it has them. Throws Error(kInput) for operators that neither LibTorch
// nor `operators` has.
Model graph_model(const ModelSpec& model, const std::vector<GraphOperator>& operators = {});

// A tensor of the archive, contiguous, on the CPU. Throws Error(kInput) where the file has changed
// or has no bytes of it.
at::Tensor read_graph_tensor(const ExportedGraph& graph, const GraphTensor& tensor);

}  // namespace sluice::detail
