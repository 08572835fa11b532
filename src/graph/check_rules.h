#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// Sizes by input name.
using InputSizes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

// Checks that the sizes satisfy the rules with which the graph was exported, such as "s0 >= 2".
// Skips rules with unknown symbols or inputs. Throws Error(kInput) with the input, its sizes and
// the rule.
void check_rules(const GraphModule& module, const InputSizes& sizes);

}  // namespace sluice::detail
