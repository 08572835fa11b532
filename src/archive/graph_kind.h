#pragma once

#include <memory>

#include "archive/graph_model.h"
#include "kind/model_kind.h"

namespace sluice::detail {

const ModelKind& graph_kind();
std::shared_ptr<const ModelSource> graph_source(std::shared_ptr<const GraphOfModel> graph,
                                                const ModelSpec& model);

// Precondition: the model's source is a graph_source().
const std::shared_ptr<const GraphOfModel>& graph_of(const ModelSpec& model);

}  // namespace sluice::detail
