// Compares two checkpoints, or a checkpoint and a Hugging Face directory. Reads tensors only if
// their hashes differ or are missing. Ignores version, run and fingerprints, which differ between
// layouts of the same training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/checkpoint.h"

namespace sluice {

struct ValueDifference {
  std::string name;
  std::optional<std::string> a, b;
};

struct TensorDifference {
  SavedKind kind = SavedKind::kWeights;
  std::string name;
  std::string a, b;  // for example "F32 [2, 3]", or "" if missing
  // Set only for floating-point tensors. Infinite if an element is NaN on one side only.
  std::optional<double> largest_difference = {};
};

struct CheckpointDiff {
  // Manifest values. Empty for a Hugging Face directory.
  std::vector<ValueDifference> values;
  std::vector<ValueDifference> settings, extra, ties;
  std::vector<TensorDifference> tensors;

  bool equal() const {
    return values.empty() && settings.empty() && extra.empty() && ties.empty() && tensors.empty();
  }
};

CheckpointDiff diff_checkpoints(const std::string& a, const std::string& b);

}  // namespace sluice
