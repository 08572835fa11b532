#pragma once

#include "sluice/options.h"

namespace sluice::detail {

// Returns the numbers of state per parameter.
int moments_of(OptimizerKind optimizer);

}  // namespace sluice::detail
