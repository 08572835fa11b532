#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"

namespace sluice::detail {

inline constexpr std::int64_t kKnownFactsFormat = 1;

GraphFacts parse_graph_facts(std::string_view text, const std::string& where);

// Names the results. Throws Error(kInput) if the facts do not fit the graph.
void apply_graph_facts(const GraphFacts& facts, const std::string& where, ExportedGraph& graph);

}  // namespace sluice::detail
