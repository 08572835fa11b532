#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/kept_tensors.h"
#include "sluice/checkpoint.h"
#include "sluice/parts/group.h"
#include "sluice/parts/saver.h"

namespace sluice {

struct TensorFile {
  std::string name;  // in the checkpoint
  NamedTensors tensors;
};

struct SaveAgreement {
  std::vector<TensorFile> files;            // this rank's
  std::map<std::string, std::string> ties;  // all ranks'
  std::shared_ptr<const KeptTensors> kept;  // copied by rank 0
};

struct WeightFiles {
  std::string stem = "model";
  std::uint64_t max_bytes = kMaxShardBytes;
  bool whole = false;  // one file of any size
};

// Collective. Each rank writes its own tensors. The first rank that has a buffer writes it. Rank 0
// copies kept tensors. Throws on every rank: Error(kCheckpoint) if a rank does not see `directory`
// or kept tensors cannot be read, Error(kUsage) if equally named buffers differ, and
// Error(kInternal) if two ranks save one tensor.
SaveAgreement agree_on_files(const std::string& directory, const RankState& state,
                             const SaveTarget& target, const WeightFiles& weights,
                             const Group& world);

struct WrittenFiles {
  std::vector<SavedTensor> tensors;
  std::string failure;  // "" if all is written
};

// Collective. Returns all ranks' tensors, or the first failure.
WrittenFiles gather_written(const WrittenFiles& own, const Group& world);

// Collective. Returns rank 0's outcome.
std::optional<SaveOutcome> broadcast_outcome(const std::optional<SaveOutcome>& own,
                                             const Group& world);

}  // namespace sluice
