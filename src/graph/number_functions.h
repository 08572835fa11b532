#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// Returns Python's function on symbolic numbers, such as `torch.sym_ite`, or nullptr. It throws
// Error(kInput) without a place for a division by 0 and overflow.
NumberFunction number_function(std::string_view target);

}  // namespace sluice::detail
