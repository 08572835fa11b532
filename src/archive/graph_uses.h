// Names of the uses of an exported graph's parameters, and which of them are tied.
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "archive/graph_flow.h"
#include "archive/graph_layers.h"

namespace sluice::detail {

// Names the uses of all layers. The last layer gets the parameters that none has, as unread.
void name_uses(const ExportedGraph& graph, const GraphFlow& flow, std::vector<GraphLayer>& layers);

}  // namespace sluice::detail
