// The manifest of a folder, and the errors of a folder without one.
//
// Owns: finding the folder and its manifest. Does not own: the other files (checkpoint.h).
// Thread-safety: pure functions, but for the files.
#pragma once

#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr const char* kNotCommitted = "no manifest.json: it was not committed";

// `path` may be a link. Throws Error(kCheckpoint): no such folder (with the nearest checkpoint
// beside it), no manifest in it, what parse_manifest() throws.
Manifest read_manifest(const std::string& path);

// A checkpoint was committed under this path, whatever became of it since.
bool was_committed(const std::string& path);

}  // namespace sluice
