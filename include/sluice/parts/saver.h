// Saves a checkpoint from all ranks, at once or while training goes on.
//
// Rank 0 creates the directory. All ranks write and flush their files, then rank 0 adds the shared
// files and commits. If one rank fails, all get the first error and no files remain. Only finish()
// waits for another rank's disk. If the ranks lose their connection, finish() with a new group
// continues the save from rank 0's progress. A Saver belongs to its rank's thread and writes on its
// own thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/parts/group.h"

namespace sluice {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct RankState {
  NamedTensors parameters;  // unsharded; tied ones on the rank of their first use
  NamedTensors buffers;
  NamedTensors optimizer;
  std::map<std::string, std::string> ties;  // later use on this rank -> first use
  NamedTensors extra;                       // names differ between ranks
};

inline constexpr std::uint64_t kMaxShardBytes = std::uint64_t{5} << 30;

struct SaveTarget {
  std::string path;
  Commit commit = Commit::kRename;
  Manifest head;                 // rank 0's manifest, without tensors, ties and files
  std::string config_text = {};  // "": none
  // Set if only an adapter is saved.
  std::string adapter_config = {};
  std::string source_directory = {};  // tokenizer files are copied from it; "": none
  // Set if the model is part of a larger one, whose other tensors are copied from source_directory.
  std::shared_ptr<const ModelSpec> part_of_source = {};
  // Called on a separate thread of rank 0 before the save ends.
  std::function<void()> after_commit = {};
  std::uint64_t max_shard_bytes = kMaxShardBytes;
};

// The result of a save, the same on every rank.
struct SaveOutcome {
  std::int64_t step = 0;
  std::string path;
  std::optional<Error> error;  // set if there is no checkpoint
};

enum class SaveFrom : std::uint8_t {
  kCopy,  // the state may change after begin()
  kLive,  // the state may change only after finish()
};

class Saver {
 public:
  Saver();
  // Waits for this rank's files.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Collective. Starts a save. Precondition: !in_flight(). Returns nullopt, or an error:
  // kCheckpoint if not all ranks can write to the folder, kUsage if a buffer differs between ranks.
  std::optional<SaveOutcome> begin(const SaveTarget& target, const RankState& state, SaveFrom from,
                                   const Group& world);
  // Whether a save has begun and has no outcome yet. Equal on all ranks, unless a call has thrown.
  bool in_flight() const;
  // Collective. Returns nullopt while the save is in flight, and then the outcome.
  std::optional<SaveOutcome> poll(const Group& world);
  // Collective. Waits for the save's outcome. Without a save in flight, returns the last outcome,
  // or nullopt.
  std::optional<SaveOutcome> finish(const Group& world);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collective. Starts a save (kLive) and waits for its outcome.
SaveOutcome save_checkpoint(const SaveTarget& target, const RankState& state, const Group& world);

}  // namespace sluice
