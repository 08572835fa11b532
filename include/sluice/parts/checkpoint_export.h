// The weights of a checkpoint as a Hugging Face directory: files copied byte for byte.
//
// Owns: the copy, its verification, its publication. Does not own: the checkpoint.
//
// Invariants:
//  1. Every byte that is copied is compared with its hash on the way.
//  2. The directory has its name only when it is complete and on disk; after an error there is
//     none. A process that is killed may leave ".NAME.tmp-*" beside it.
// Thread-safety: a pure function, but for the files.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

struct ExportedDirectory {
  int num_files = 0;
  std::uint64_t bytes = 0;
  bool has_config = false;  // without it, it is weights alone
};

// out: not there yet, or an empty directory. Throws Error(kUsage) if it is something else,
// Error(kCheckpoint) for content that is not what was saved and for what cannot be written.
ExportedDirectory export_checkpoint(const Checkpoint& checkpoint, const std::string& out);

}  // namespace sluice
