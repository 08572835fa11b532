// Exported graphs as a kind of model.
// Thread-safety: immutable.
#pragma once

#include <memory>

#include "archive/graph_model.h"
#include "kind/model_kind.h"

namespace sluice::detail {

const ModelKind& graph_kind();
std::shared_ptr<const ModelSource> graph_source(std::shared_ptr<const GraphOfModel> graph,
                                                const ModelSpec& model);

// The graph that the model was described from. Precondition: its source is graph_source().
const std::shared_ptr<const GraphOfModel>& graph_of(const ModelSpec& model);

}  // namespace sluice::detail
