// Checks of arguments that LibTorch does not make: without them some operators read beyond their
// tensors, or end the process.
//
// A graph comes from a file that may be hostile, and a batch may have labels that the model does
// not know.
// Owns: the checks. Does not own: which operators may run at all (family/aten_table.h).
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// name: "aten::lstm". nullptr: LibTorch checks the arguments itself. The check throws c10::Error.
GraphCall::Check find_call_check(std::string_view name);

}  // namespace sluice::detail
