// The integers that an input of an exported graph may hold, where an operator takes no others.
//
// Owns: the way from an input to the tables and losses that read it as it is. Does not own: rows of
// data that are compared with a limit (data.h).
// Invariant: an input within its limit is refused by none of these operators, and one beyond it by
// at least one of them; what a graph computes of an input before it is read has no limit here.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "archive/exported_graph.h"

namespace sluice::detail {

struct IdLimit {
  std::int64_t below = 0;               // ids are 0 or more, and less than this
  std::optional<std::int64_t> ignored;  // or this one, of labels that a loss leaves out
};

// value: of an input of integers. None: the graph takes every integer there, as far as is known.
std::optional<IdLimit> id_limit(const GraphModule& module, int value);

}  // namespace sluice::detail
