// The differences between two checkpoints, or between one and a Hugging Face directory.
//
// Owns: the comparison. Does not own: opening (checkpoint.h, hf_directory.h), printing.
//
// Invariants:
//  1. Tensors whose dtype and shape agree are compared by hash where both sides have one; content
//     is read only where hashes differ or are missing, in pieces of at most 16 MiB.
//  2. The version, the run and the fingerprints are not compared: the same training at another
//     layout has others.
// Thread-safety: pure functions, but for the files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/checkpoint.h"

namespace sluice {

struct ValueDifference {
  std::string name;
  std::optional<std::string> a, b;  // nullopt: it is not there
};

struct TensorDifference {
  SavedKind kind = SavedKind::kWeights;
  std::string name;
  std::string a, b;  // dtype and shape, "F32 [2, 3]"; "" where it is not there
  // Between elements of floating tensors of one form; infinite where only one of them is a number.
  std::optional<double> largest_difference = {};
};

struct CheckpointDiff {
  // Empty where one of the two is a Hugging Face directory, which does not say them.
  std::vector<ValueDifference> values;  // step, sequence, seed
  std::vector<ValueDifference> settings, extra, ties;
  std::vector<TensorDifference> tensors;  // by kind and name; those that are equal are left out

  bool equal() const {
    return values.empty() && settings.empty() && extra.empty() && ties.empty() && tensors.empty();
  }
};

// In a Hugging Face directory (model.safetensors or its index, no manifest.json) only weights are
// compared, with the weights of the other. Throws Error(kCheckpoint) as Checkpoint does, and for a
// directory that cannot be read.
CheckpointDiff diff_checkpoints(const std::string& a, const std::string& b);

}  // namespace sluice
