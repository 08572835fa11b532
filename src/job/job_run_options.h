// What a configuration says of how its ranks run. Thread-safety: pure functions.
#pragma once

#include "sluice/parts/run_options.h"
#include "sluice/run_config.h"

namespace sluice {

// Without observers and without weights: these are loaded or drawn by who has them.
RunOptions run_options(const RunConfig& config);

}  // namespace sluice
