// The agreement of the ranks of a save.
//
// Owns: the rank and the file of every tensor, and the check that all ranks can write.
// Thread-safety: one rank's thread; collective over all ranks.
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
  std::map<std::string, std::string> ties;  // ties of all ranks
  std::shared_ptr<const KeptTensors> kept;  // rank 0's to copy; nullptr: none
};

// The names of files of weights, and how they are split.
struct WeightFiles {
  std::string stem = "model";
  std::uint64_t max_bytes = kMaxShardBytes;  // also of other files
  bool whole = false;                        // one file, as large as it is
};

// Collective. Every tensor is in one file of one rank: parameters and optimizer state on the rank
// that gives them, extra tensors too, a buffer on the first that has it; rank 0 copies what is
// kept. Throws Error(kCheckpoint) on every rank when one does not see `directory` or rank 0 cannot
// read what is to be kept, Error(kUsage) for buffers of one name that differ, Error(kInternal) for
// a parameter or extra tensor that two ranks give.
SaveAgreement agree_on_files(const std::string& directory, const RankState& state,
                             const SaveTarget& target, const WeightFiles& weights,
                             const Group& world);

struct WrittenFiles {
  std::vector<SavedTensor> tensors;
  std::string failure;  // "" when all is written
};

// Collective. All tensors, or the first failure.
WrittenFiles gather_written(const WrittenFiles& own, const Group& world);

// Collective. Rank 0's.
std::optional<SaveOutcome> broadcast_outcome(const std::optional<SaveOutcome>& own,
                                             const Group& world);

}  // namespace sluice
