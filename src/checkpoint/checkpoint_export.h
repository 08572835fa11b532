// Exports a checkpoint as a Hugging Face directory, which gets its name when complete. A killed
// process may leave ".NAME.tmp-*".
#pragma once

#include <cstdint>
#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

struct ExportedDirectory {
  int num_files = 0;
  std::uint64_t bytes = 0;
  bool has_config = false;
};

// Checks the hashes of all copied bytes. Throws Error(kUsage) unless `out` is missing or empty, and
// Error(kCheckpoint) for damaged content and failed writes.
ExportedDirectory export_checkpoint(const Checkpoint& checkpoint, const std::string& out);

// Writes the Hugging Face directory `base` with each adapted weight W replaced by W + scale * B A,
// computed in float32. adapter: a checkpoint or a PEFT directory. Holds only a few tensors in
// memory. Also throws Error(kInput) for an unfit base or adapter, and Error(kCheckpoint) for a sum
// that float16 cannot hold.
ExportedDirectory export_merged(const std::string& adapter, const std::string& base,
                                const std::string& out);

}  // namespace sluice
