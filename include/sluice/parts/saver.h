// Saver: all ranks save one checkpoint together, waiting for it or while training goes on.
//
// Rank 0 makes the directory. When all ranks see it, they agree on the names of their files, write
// and flush them. Then rank 0 adds the other files and the manifest and commits.
//
// Invariants:
//  1. If one rank fails, all ranks get the first reason, and no files are left.
//  2. Between begin() and the end no rank waits for another's disk: poll() asks, finish() waits. At
//     most one save is in flight.
//  3. After ranks lost their connection during a save, finish() over a new one ends the save: the
//     progress of rank 0 decides how.
// Thread-safety: one rank's thread; a Saver writes files on its own thread.
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
  NamedTensors parameters;  // whole; a tied one on the rank of its first use, by that name
  NamedTensors buffers;     // several ranks may have the same buffer under one name
  NamedTensors optimizer;   // state of these parameters
  std::map<std::string, std::string> ties;  // another use on this rank -> the first
  NamedTensors extra;                       // under names that no other rank has
};

inline constexpr std::uint64_t kMaxShardBytes = std::uint64_t{5} << 30;

struct SaveTarget {
  std::string path;  // path of the checkpoint, under its final name
  Commit commit = Commit::kRename;
  Manifest head;                 // all but tensors, ties and files; rank 0's is used
  std::string config_text = {};  // the model's config.json; "": none
  // adapter_config.json, when the parameters are those of an adapter alone; "": they are not.
  std::string adapter_config = {};
  std::string source_directory = {};  // its tokenizer files are copied; "": none
  // Called on rank 0 after the commit, before the save ends, on another thread than the rank's.
  std::function<void()> after_commit = {};
  std::uint64_t max_shard_bytes = kMaxShardBytes;
};

// The outcome of a save, the same on every rank.
struct SaveOutcome {
  std::int64_t step = 0;
  std::string path;            // path of the committed checkpoint
  std::optional<Error> error;  // the reason if there is none
};

enum class SaveFrom : std::uint8_t {
  kCopy,  // a snapshot: the state may change when begin() has returned
  kLive,  // the state itself: it may change when finish() has returned
};

class Saver {
 public:
  Saver();
  // Waits for this rank's files.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Collective. Starts a save. Precondition: !in_flight(). nullopt: the save is in flight. An
  // outcome, always with an error: the folder cannot be written (kCheckpoint) or is not seen by all
  // ranks, or a buffer differs between ranks (kUsage).
  std::optional<SaveOutcome> begin(const SaveTarget& target, const RankState& state, SaveFrom from,
                                   const Group& world);
  // True while a save is in flight. The same on every rank, unless a call has thrown.
  bool in_flight() const;
  // Collective. Returns the outcome, once; nullopt while the save is in flight.
  std::optional<SaveOutcome> poll(const Group& world);
  // Collective. Waits for the outcome. nullopt if no save was ever started; after the end, the last
  // outcome again.
  std::optional<SaveOutcome> finish(const Group& world);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collective. Saves from the live state, and waits.
SaveOutcome save_checkpoint(const SaveTarget& target, const RankState& state, const Group& world);

}  // namespace sluice
