#pragma once

#include <cstddef>
#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// Checks all files against the manifest's hashes. Throws Error(kCheckpoint).
void verify_content(const std::string& path, const Manifest& manifest, int num_threads);

}  // namespace sluice
