// Calls frequent operators by their C++ functions, without the stack of a boxed call.
#pragma once

#include <ATen/core/operator_name.h>

#include "graph/graph_call.h"

namespace sluice::detail {

// nullptr: call it boxed
GraphCall::Run direct_call(const c10::OperatorName& name);

}  // namespace sluice::detail
