#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

// input name -> sizes
using InputSizes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

// Checks sizes against the rules of the export, such as "s0 >= 2". Skips rules with unknown symbols
// or inputs. Throws Error(kInput) with the input, its sizes and the rule.
void check_rules(const GraphModule& module, const InputSizes& sizes);

}  // namespace sluice::detail
