// What no key can check by itself.
// Thread-safety: pure functions.
#pragma once

#include "sluice/run_config.h"

namespace sluice::detail {

// Throws Error(kUsage) "not built yet" for the first key whose value is not acted on.
void check_built(const RunConfig& config);

// Throws Error(kUsage) for keys that contradict each other.
void check_together(const RunConfig& config);

}  // namespace sluice::detail
