// Calls frequent operators through their C++ functions, without LibTorch's stack of IValues (a
// boxed call).
#pragma once

#include <ATen/core/operator_name.h>

#include "graph/graph_call.h"

namespace sluice::detail {

// Returns nullptr if the operator must be called boxed.
GraphCall::Run direct_call(const c10::OperatorName& name);

}  // namespace sluice::detail
