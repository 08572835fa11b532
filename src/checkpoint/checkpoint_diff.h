// Compares two checkpoints, or a checkpoint and a Hugging Face directory. Reads content only if
// hashes differ or are missing. Does not compare version, run and fingerprints, which differ for
// the same training in another layout.
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
  std::string a, b;  // "F32 [2, 3]", or "" if missing
  // Set for floating-point tensors. Infinite if only one element is NaN.
  std::optional<double> largest_difference = {};
};

struct CheckpointDiff {
  // Empty for a Hugging Face directory.
  std::vector<ValueDifference> values;
  std::vector<ValueDifference> settings, extra, ties;
  std::vector<TensorDifference> tensors;  // only those that differ

  bool equal() const {
    return values.empty() && settings.empty() && extra.empty() && ties.empty() && tensors.empty();
  }
};

CheckpointDiff diff_checkpoints(const std::string& a, const std::string& b);

}  // namespace sluice
