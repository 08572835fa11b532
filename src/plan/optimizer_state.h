#pragma once

#include "sluice/options.h"

namespace sluice {

// Returns kSgdMomentum for kSgd with momentum, otherwise options.kind.
OptimizerKind kind_of_state(const OptimizerOptions& options);

namespace detail {

// Returns the numbers of state per parameter.
int moments_of(OptimizerKind optimizer);

}  // namespace detail
}  // namespace sluice
