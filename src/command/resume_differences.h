// The differences between a run and the checkpoint that it resumes from.
// Thread-safety: pure functions, but for reading the checkpoint's config.json.
#pragma once

#include <map>
#include <string>

#include "command/fingerprints.h"
#include "sluice/checkpoint.h"

namespace sluice {

// The difference for a message: "its 'hidden_size' is 64, not 128". "" for nothing.
std::string model_difference(const Checkpoint& checkpoint, const RunFingerprints& made_of);
std::string data_difference(const Manifest& manifest, const RunFingerprints& made_of);

// "optimizer.lr: 0.001 -> 0.0005, training.seed: 0 -> 1", old to new; "" for none. A key that the
// checkpoint does not know had its default.
// Without training.steps: decay_difference().
std::string changed_settings(const std::map<std::string, std::string>& before,
                             const std::map<std::string, std::string>& now);

// Describes how the learning rate jumps if the checkpoint's run planned its decay to end at another
// step. "" if it ends at the same step, or if the checkpoint does not say.
std::string decay_difference(const Manifest& manifest, const RunConfig& config);

}  // namespace sluice
