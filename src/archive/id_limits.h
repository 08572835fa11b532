// Finds the integers that an input of an exported graph may contain. The limit is exact. It comes
// from embedding tables and losses that read the input unchanged.
#pragma once

#include <cstdint>
#include <optional>

#include "archive/exported_graph.h"

namespace sluice::detail {

struct IdLimit {
  std::int64_t below = 0;               // 0 <= id < below
  std::optional<std::int64_t> ignored;  // also allowed: the label that the loss ignores
};

std::optional<IdLimit> id_limit(const GraphModule& module, int value);

}  // namespace sluice::detail
