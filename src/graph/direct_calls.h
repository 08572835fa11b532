// The most frequent operators, called through their C++ functions in place of a stack.
//
// Owns: which these are. Does not own: the binding of arguments, which is the same for both.
// Thread-safety: pure function.
#pragma once

#include <ATen/core/operator_name.h>

#include "graph/graph_call.h"

namespace sluice::detail {

// nullptr: it is called boxed.
GraphCall::Run direct_call(const c10::OperatorName& name);

}  // namespace sluice::detail
