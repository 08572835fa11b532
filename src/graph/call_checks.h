// Some operators of LibTorch would otherwise read beyond their tensors or end the process. Graphs
// may come from hostile files, and labels may be wrong.
#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// Returns nullptr if LibTorch checks "aten::lstm" enough. The check throws c10::Error.
GraphCall::Check find_call_check(std::string_view name);

}  // namespace sluice::detail
