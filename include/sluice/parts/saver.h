// Saves one checkpoint from all ranks together, at once or while training goes on.
//
// Rank 0 creates the directory. All ranks write and flush their files, then rank 0 adds the others
// and commits. If one rank fails, all get the first error and no files remain. No rank waits for
// another rank's disk, except in finish(). If the ranks lose their connection during a save,
// finish() over a new one completes it, as far as rank 0 got. A Saver belongs to its rank's thread
// and writes files on its own thread.
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
#include "sluice/options.h"
#include "sluice/parts/group.h"

namespace sluice {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct RankState {
  NamedTensors parameters;  // whole; a tied one on the rank of its first use
  NamedTensors buffers;
  NamedTensors optimizer;
  std::map<std::string, std::string> ties;  // another use on this rank -> first use
  NamedTensors extra;                       // names differ between ranks
};

inline constexpr std::uint64_t kMaxShardBytes = std::uint64_t{5} << 30;

struct SaveTarget {
  std::string path;
  Commit commit = Commit::kRename;
  Manifest head;                 // without tensors, ties and files; taken from rank 0
  std::string config_text = {};  // "": none
  // For an adapter alone; "": no adapter.
  std::string adapter_config = {};
  std::string source_directory = {};  // its tokenizer files are copied; "": none
  // Called on rank 0 after the commit and before the save ends, on a separate thread.
  std::function<void()> after_commit = {};
  std::uint64_t max_shard_bytes = kMaxShardBytes;
};

// The same on every rank.
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

  // Collective: starts a save. Precondition: !in_flight(). Returns nullopt, or an error:
  // kCheckpoint if the folder cannot be written or not all ranks see it, kUsage if a buffer differs
  // between ranks.
  std::optional<SaveOutcome> begin(const SaveTarget& target, const RankState& state, SaveFrom from,
                                   const Group& world);
  // The same on every rank, unless a call has thrown.
  bool in_flight() const;
  // Collective: returns the outcome once, and nullopt while the save is in flight.
  std::optional<SaveOutcome> poll(const Group& world);
  // Collective: waits for the outcome. If no save is in flight, returns the last outcome, or
  // nullopt.
  std::optional<SaveOutcome> finish(const Group& world);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collective.
SaveOutcome save_checkpoint(const SaveTarget& target, const RankState& state, const Group& world);

}  // namespace sluice
