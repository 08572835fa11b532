// Checks arguments that LibTorch does not check. With wrong ones some operators read beyond their
// tensors or end the process. Graphs may come from hostile files, and labels may be wrong.
//
// Owns: the checks. Does not own: which operators may run at all (family/aten_table.h).
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// The check for an operator such as "aten::lstm", which throws c10::Error. nullptr: LibTorch checks
// enough.
GraphCall::Check find_call_check(std::string_view name);

}  // namespace sluice::detail
