// Prevents LibTorch operators from reading beyond their tensors or ending the process. Graphs may
// come from hostile files, and labels may be wrong.
#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// Returns an operator's check. nullptr: LibTorch's own checks, which throw c10::Error, suffice.
GraphCall::Check find_call_check(std::string_view name);

}  // namespace sluice::detail
