// Describes differences between a run and its checkpoint. "" for none.
#pragma once

#include <map>
#include <string>

#include "command/fingerprints.h"
#include "sluice/checkpoint.h"

namespace sluice {

// "its 'hidden_size' is 64, not 128"
std::string model_difference(const Checkpoint& checkpoint, const RunFingerprints& made_of);
std::string data_difference(const Manifest& manifest, const RunFingerprints& made_of);

// "optimizer.lr: 0.001 -> 0.0005, training.seed: 0 -> 1". Ignores training.steps, see
// decay_difference().
std::string changed_settings(const std::map<std::string, std::string>& before,
                             const std::map<std::string, std::string>& now);

// Describes how the learning rate jumps if the checkpoint's run had another last step of decay.
std::string decay_difference(const Manifest& manifest, const RunConfig& config);

}  // namespace sluice
