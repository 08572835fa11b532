// Checks arguments so that LibTorch operators do not read beyond their tensors or end the process.
// Graphs may come from hostile files, and labels may be wrong.
#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// Returns the check for an operator such as "aten::lstm", or nullptr if LibTorch's own checks,
// which throw c10::Error, suffice.
GraphCall::Check find_call_check(std::string_view name);

}  // namespace sluice::detail
