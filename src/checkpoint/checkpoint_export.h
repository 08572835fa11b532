// The weights of a checkpoint as a Hugging Face directory: files copied byte for byte, or an
// adapter merged into its base.
//
// Owns: the copy, its verification, its publication, merging. Does not own: the checkpoint, whether
// the base is the one of its run (src/command).
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

// The Hugging Face directory `base` with W + scale * B A in place of the weight W of every layer
// that `adapter` has, a checkpoint of an adapter or a PEFT directory: computed in float32, stored
// in W's type, in the files that the base has. A few tensors are in memory at a time. Throws what
// export_checkpoint() does, Error(kInput) for a base or adapter that cannot be read or do not fit
// each other, Error(kCheckpoint) for a sum that float16 cannot hold.
ExportedDirectory export_merged(const std::string& adapter, const std::string& base,
                                const std::string& out);

}  // namespace sluice
