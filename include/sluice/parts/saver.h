// Saves one checkpoint from all ranks together, at once or while training goes on.
//
// Rank 0 creates the directory. All ranks agree on file names, then write and flush their files.
// Rank 0 adds the other files and the manifest, and commits.
// 1. If one rank fails, all ranks get the first error and no files remain.
// 2. No rank waits for another rank's disk, except in finish().
// 3. If the ranks lose their connection during a save, finish() over a new one completes it. Rank
//    0's progress decides the outcome.
//
// A Saver belongs to its rank's thread and writes files on its own thread.
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
  NamedTensors parameters;                  // whole; a tied one on the rank of its first use
  NamedTensors buffers;                     // several ranks may have the same buffer
  NamedTensors optimizer;                   // state of these parameters
  std::map<std::string, std::string> ties;  // another use on this rank -> first use
  NamedTensors extra;                       // names must differ between ranks
};

inline constexpr std::uint64_t kMaxShardBytes = std::uint64_t{5} << 30;

struct SaveTarget {
  std::string path;  // final path of the checkpoint
  Commit commit = Commit::kRename;
  Manifest head;                 // without tensors, ties and files; taken from rank 0
  std::string config_text = {};  // the model's config.json, or ""
  // adapter_config.json if only an adapter is saved, or "".
  std::string adapter_config = {};
  std::string source_directory = {};  // its tokenizer files are copied; may be ""
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
  kCopy,  // a snapshot; the state may change after begin()
  kLive,  // no copy; the state may change only after finish()
};

class Saver {
 public:
  Saver();
  // Waits for this rank's files.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Collective: starts a save. Precondition: !in_flight(). Returns nullopt, or an outcome with an
  // error. It is kCheckpoint if the folder cannot be written or not all ranks see it, and kUsage if
  // a buffer differs between ranks.
  std::optional<SaveOutcome> begin(const SaveTarget& target, const RankState& state, SaveFrom from,
                                   const Group& world);
  // The same on every rank, unless a call has thrown.
  bool in_flight() const;
  // Collective: returns the outcome once, and nullopt while the save is in flight.
  std::optional<SaveOutcome> poll(const Group& world);
  // Collective: waits for the outcome. Returns the last outcome again if no save is in flight,
  // nullopt if there never was one.
  std::optional<SaveOutcome> finish(const Group& world);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collective: saves from the live state, and waits.
SaveOutcome save_checkpoint(const SaveTarget& target, const RankState& state, const Group& world);

}  // namespace sluice
