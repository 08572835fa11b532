#pragma once

#include <cstdint>

#include "archive/graph_model.h"
#include "kind/model_kind.h"

namespace sluice::detail {

// `vocab_size` is from config.json, or 0. The graph's own embedding overrides it. Throws
// Error(kInput) for an input without rows.
RowNeeds rows_of_graph(const GraphOfModel& graph, std::int64_t vocab_size);

}  // namespace sluice::detail
