// Reads extra/sluice.json, the facts that sluice's exporter adds to an archive.
#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"

namespace sluice::detail {

inline constexpr std::int64_t kKnownFactsFormat = 1;

// Throws Error(kInput) at `where`.
GraphFacts parse_graph_facts(std::string_view text, const std::string& where);

// Throws Error(kInput) if the facts do not fit the graph. Otherwise gives the results their names.
void apply_graph_facts(const GraphFacts& facts, const std::string& where, ExportedGraph& graph);

}  // namespace sluice::detail
