// The checkpoints of a run that are removed when a newer one is committed.
//
// Owns: the choice. Does not own: how a directory is taken away so that a kill leaves the folder
// sound (io), when to look.
//
// Invariants:
//  1. Only committed checkpoints of the run itself are chosen, each of an earlier step than one
//     that is committed and stays, and none that holds anything but the files of its manifest.
// Thread-safety: pure functions, but for the folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct Retention {
  std::string run;                 // Manifest::run
  std::int64_t keep_latest_k = 3;  // up to the step that was committed; 0: all
  std::int64_t keep_every = 0;     // steps that this divides are kept besides; 0: none
};

// Paths in `folder`, by step, that go after the checkpoint of `step` was committed; none where that
// one is not there. Throws Error(kCheckpoint) where the folder cannot be listed.
std::vector<std::string> superseded_checkpoints(const std::string& folder, std::int64_t step,
                                                const Retention& retention);

// Takes them away, oldest first. What cannot be removed, or looked for, stays with a warning: what
// was to be saved is saved.
void remove_superseded(const std::string& folder, std::int64_t step, const Retention& retention,
                       const std::function<void(const std::string& path)>& remove);

}  // namespace sluice
