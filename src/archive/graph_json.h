// Reads one exported program from JSON (torch/_export/serde/schema.py, version 8).
#pragma once

#include <string>
#include <string_view>

#include "archive/exported_graph.h"
#include "base/json.h"

namespace sluice::detail {

// JSON at this limit needs 2 GB. A graph of 61 layers has 6 MB and 300,000 values.
inline constexpr std::size_t kMaxGraphJsonBytes = 256 << 20, kMaxGraphJsonValues = 20'000'000;
inline constexpr std::int64_t kKnownSchema = 8;

struct GraphProgram {
  std::string torch_version;
  GraphModule module;
};

// Throws Error(kInput) at `where`.
GraphProgram parse_graph_program(std::string_view text, const std::string& where);

}  // namespace sluice::detail
