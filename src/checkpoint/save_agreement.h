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
  std::string name;
  NamedTensors tensors;
};

struct SaveAgreement {
  std::vector<TensorFile> files;  // to write on this rank
  std::map<std::string, std::string> ties;
  std::shared_ptr<const KeptTensors> kept;  // set on rank 0, which copies them
};

struct WeightFiles {
  std::string stem = "model";
  std::uint64_t max_bytes = kMaxShardBytes;
  bool whole = false;  // a single file of any size
};

// Decides which rank writes which tensors. Collective. Each rank writes its own parameters. A
// module buffer is written by the first rank that has it. Rank 0 copies the kept tensors, which the
// source checkpoint has but the trained model lacks (kept_tensors.h).
//
// Every rank throws the same error. It is Error(kCheckpoint) if a rank does not see `directory` or
// kept tensors cannot be read, Error(kUsage) if buffers of one name differ, and Error(kInternal) if
// two ranks save one tensor.
SaveAgreement agree_on_files(const std::string& directory, const RankState& state,
                             const SaveTarget& target, const WeightFiles& weights,
                             const Group& world);

struct WrittenFiles {
  std::vector<SavedTensor> tensors;
  std::string failure;  // "" if all files are written
};

// Returns the written tensors of all ranks, or the first failure. Collective.
WrittenFiles gather_written(const WrittenFiles& own, const Group& world);

// Returns rank 0's outcome on every rank. Collective.
std::optional<SaveOutcome> broadcast_outcome(const std::optional<SaveOutcome>& own,
                                             const Group& world);

}  // namespace sluice
