#pragma once

#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr const char* kNotCommitted = "there is no manifest.json, so it was not committed";

// Throws Error(kCheckpoint) for a missing folder, or a missing or invalid manifest. `path` may be a
// link.
Manifest read_manifest(const std::string& path);

// Whether a checkpoint was committed, even if it is damaged now.
bool was_committed(const std::string& path);

}  // namespace sluice
