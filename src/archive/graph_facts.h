#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"

namespace sluice::detail {

inline constexpr std::int64_t kKnownFactsFormat = 1;

GraphFacts parse_graph_facts(std::string_view text, const std::string& where);

// Names the graph's results by the facts. Throws Error(kInput) if these do not fit.
void apply_graph_facts(const GraphFacts& facts, const std::string& where, ExportedGraph& graph);

}  // namespace sluice::detail
