// Arithmetic with symbolic numbers: `_operator.mul`, `torch.sym_ite`, `math.floor`, as Python has
// it.
//
// Owns: which there are. Does not own: numbers whose expression follows from sizes (graph_sizes.h).
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "graph/graph_call.h"

namespace sluice::detail {

// nullptr: the target is no such function. What it returns throws Error(kInput) without a place for
// a division by 0 and for a number beyond 64 bits.
NumberFunction number_function(std::string_view target);

}  // namespace sluice::detail
