// Comparing the content of a checkpoint's files with the hashes of its manifest.
//
// Owns: the spread of the reading over threads; each holds at most kBufferBytes.
// Does not own: headers of files (checkpoint.cpp).
// Thread-safety: a pure function, but for the files.
#pragma once

#include <cstddef>
#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// Throws Error(kCheckpoint) naming file and tensor.
void verify_content(const std::string& path, const Manifest& manifest, int num_threads);

}  // namespace sluice
