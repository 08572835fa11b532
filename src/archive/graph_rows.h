// The rows of data that an exported graph takes: sequences of tokens with fields beside them, or
// fields alone. Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "archive/graph_model.h"
#include "kind/model_kind.h"

namespace sluice::detail {

// vocab_size: that of config.json, 0 if it is unknown; the graph's own embedding decides before it.
// Throws Error(kInput) naming an input that has no dimension of rows.
RowNeeds rows_of_graph(const GraphOfModel& graph, std::int64_t vocab_size);

}  // namespace sluice::detail
