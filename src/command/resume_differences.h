// Describes differences between a run and the checkpoint it resumes. Returns "" for none.
#pragma once

#include <map>
#include <string>

#include "command/fingerprints.h"
#include "sluice/checkpoint.h"

namespace sluice {

// For example "its 'hidden_size' is 64, not 128".
std::string model_difference(const Checkpoint& checkpoint, const RunFingerprints& made_of);
std::string data_difference(const Manifest& manifest, const RunFingerprints& made_of);

// For example "optimizer.lr: 0.001 -> 0.0005, training.seed: 0 -> 1". Ignores training.steps, which
// decay_difference() compares.
std::string changed_settings(const std::map<std::string, std::string>& before,
                             const std::map<std::string, std::string>& now);

// Describes how the learning rate jumps if its decay ended at another step in the checkpoint's run.
std::string decay_difference(const Manifest& manifest, const RunConfig& config);

}  // namespace sluice
