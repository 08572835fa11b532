// One graph of an archive: an exported program as JSON (torch/_export/serde/schema.py, version 8).
//
// Owns: nodes, values, signature, ranges and rules of one program. Does not own: the file
// (zip_file.h), where weights lie (tensor_table.h), what sluice's exporter adds (graph_facts.h).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"
#include "base/json.h"

namespace sluice::detail {

// At most so much of one text of JSON is read, 2 GB in memory: a graph of 61 layers has 6 MB and
// 300,000 values.
inline constexpr std::size_t kMaxGraphJsonBytes = 256 << 20, kMaxGraphJsonValues = 20'000'000;
inline constexpr std::int64_t kKnownSchema = 8;

struct GraphProgram {
  std::string torch_version;
  GraphModule module;
};

// where: "model.pt2, entry 'models/model.json'". Throws Error(kInput) there, naming the node.
GraphProgram parse_graph_program(std::string_view text, const std::string& where);

}  // namespace sluice::detail
