// Finds which integers an input of an exported graph may contain, from the embedding tables and
// losses that read the input unchanged. The limit is exact.
#pragma once

#include <cstdint>
#include <optional>

#include "archive/exported_graph.h"

namespace sluice::detail {

struct IdLimit {
  std::int64_t below = 0;               // allowed are 0 <= id < below
  std::optional<std::int64_t> ignored;  // also allowed: the label that the loss ignores (-100)
};

// Returns nothing if the graph implies no limit.
std::optional<IdLimit> id_limit(const GraphModule& module, int value);

}  // namespace sluice::detail
