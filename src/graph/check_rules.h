// The check that the sizes of a batch are ones that a graph was exported for.
// Thread-safety: pure function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// Sizes of a microbatch's inputs, by name.
using InputSizes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

// Checks the sizes of every input that `sizes` has against what the archive records: fixed sizes,
// expressions, the ranges of symbols, and rules. A rule that names an input or symbol that is not
// there is left to whoever has it. Throws Error(kInput) naming the input, its sizes and the rule.
void check_rules(const GraphModule& module, const InputSizes& sizes);

}  // namespace sluice::detail
