// All ranks save one checkpoint together, at once or behind the training.
//
// Owns: the order of a save: rank 0 makes the directory, all ranks see it, agree on the names of
//   their files, write and flush them, rank 0 adds what is not tensors and the manifest and
//   commits. Does not own: the format (checkpoint.h), the commit itself (io), when to save.
//
// Invariants:
//  1. Where one rank fails, all ranks learn the first reason, and nothing is left.
//  2. Between begin() and the end no rank waits for another's disk: poll() asks, finish() waits.
//     At most one save is on its way.
//  3. After ranks lost their connection in the middle, finish() over a new one ends the save: what
//     the ranks do is decided by how far rank 0 has come.
// Thread-safety: one rank's thread; files are written on a thread of its own.
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
  NamedTensors parameters;  // whole; a tied one on the rank of its first use, under that name
  NamedTensors buffers;     // several ranks may have one of a name, if it is the same
  NamedTensors optimizer;   // of these parameters
  std::map<std::string, std::string> ties;  // another use, on this rank -> the first
  NamedTensors extra;                       // names that no other rank has
};

inline constexpr std::uint64_t kMaxShardBytes = std::uint64_t{5} << 30;

struct SaveTarget {
  std::string path;  // of the checkpoint, under its final name
  Commit commit = Commit::kRename;
  Manifest head;                 // all of it but tensors, ties and files; rank 0's counts
  std::string config_text = {};  // of the model; "": none
  // adapter_config.json, when the parameters are those of an adapter alone; "": they are not.
  std::string adapter_config = {};
  std::string source_directory = {};  // whose tokenizer files go along; "": none
  // Called on rank 0 once it is committed, before the save ends; not on the rank's thread.
  std::function<void()> after_commit = {};
  std::uint64_t max_shard_bytes = kMaxShardBytes;
};

// What a save came to, the same on every rank.
struct SaveOutcome {
  std::int64_t step = 0;
  std::string path;            // of the committed checkpoint
  std::optional<Error> error;  // or why there is none
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

  // Collective. Precondition: !in_flight(). nullopt: it is on its way. An outcome, with an error:
  // the folder cannot be written (kCheckpoint) or is not seen by all ranks, or a buffer differs
  // between ranks (kUsage).
  std::optional<SaveOutcome> begin(const SaveTarget& target, const RankState& state, SaveFrom from,
                                   const Group& world);
  // The same on every rank, unless a call has thrown.
  bool in_flight() const;
  // Collective. The outcome, once; nullopt while it is on its way.
  std::optional<SaveOutcome> poll(const Group& world);
  // Collective. Waits. nullopt when nothing was ever begun; after the end, the last outcome again.
  std::optional<SaveOutcome> finish(const Group& world);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Collective. Begins, from the live state, and waits.
SaveOutcome save_checkpoint(const SaveTarget& target, const RankState& state, const Group& world);

}  // namespace sluice
