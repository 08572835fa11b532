// The facts that sluice's exporter writes into an archive beside torch's own entries:
// extra/sluice.json.
//
// Owns: reading it. Does not own: what is made of it.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"

namespace sluice::detail {

inline constexpr std::int64_t kKnownFactsFormat = 1;

// where: "model.pt2, entry 'extra/sluice.json'". Throws Error(kInput) there.
GraphFacts parse_graph_facts(std::string_view text, const std::string& where);

// The facts fit the graph: names of results and ties exist. Gives the results their names.
void apply_graph_facts(const GraphFacts& facts, const std::string& where, ExportedGraph& graph);

}  // namespace sluice::detail
