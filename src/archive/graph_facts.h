#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"

namespace sluice::detail {

inline constexpr std::int64_t kKnownFactsFormat = 1;

GraphFacts parse_graph_facts(std::string_view text, const std::string& where);

// Adds the exporter's facts, such as the names of results, to the graph. Throws Error(kInput) if
// they do not fit.
void apply_graph_facts(const GraphFacts& facts, const std::string& where, ExportedGraph& graph);

}  // namespace sluice::detail
