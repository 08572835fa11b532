// Calls frequent operators through their C++ functions, without a stack.
#pragma once

#include <ATen/core/operator_name.h>

#include "graph/graph_call.h"

namespace sluice::detail {

// nullptr: call it boxed
GraphCall::Run direct_call(const c10::OperatorName& name);

}  // namespace sluice::detail
