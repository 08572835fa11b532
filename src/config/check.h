// What no key can check by itself.
// Thread-safety: pure functions.
#pragma once

#include "sluice/run_config.h"

namespace sluice::detail {

// The two sizes of a batch, of which a configuration has one.
inline constexpr const char* kLocalBatch = "training.local_batch_size";
inline constexpr const char* kGlobalBatch = "training.global_batch_size";

// Throws Error(kUsage) "not built yet" for the first key whose value is not acted on.
void check_built(const RunConfig& config);

// Throws Error(kUsage) for keys that contradict each other.
void check_together(const RunConfig& config);

}  // namespace sluice::detail
