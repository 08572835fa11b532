#pragma once

#include <vector>

#include "archive/graph_flow.h"
#include "archive/graph_layers.h"

namespace sluice::detail {

// Names the layers' uses of parameters and marks tied ones. Parameters that no layer reads become
// `unread` of the last layer.
void name_uses(const ExportedGraph& graph, const GraphFlow& flow, std::vector<GraphLayer>& layers);

}  // namespace sluice::detail
