#pragma once

#include <map>
#include <vector>

#include "config/key_table.h"
#include "config/run_config.h"
#include "sluice/error.h"

namespace sluice::detail {

inline constexpr const char* kLocalBatch = "training.local_batch_size";
inline constexpr const char* kGlobalBatch = "training.global_batch_size";

// Two keys for one setting. The second is off at its default.
struct Alternatives {
  const char *first, *second;
};
inline constexpr Alternatives kAlternatives[] = {
    {kLocalBatch, kGlobalBatch},
    {"training.steps", "training.epochs"},
    {"lr_scheduler.warmup_steps", "lr_scheduler.warmup_ratio"}};

using Unbuilt = std::map<const Key*, Value>;

// Returns a "not built yet" error for each unbuilt key without its default value.
std::vector<Error> unbuilt_errors(const RunConfig& config, const Unbuilt& unbuilt);

// Throws Error(kUsage) for keys that contradict each other.
void check_together(const RunConfig& config);

}  // namespace sluice::detail
