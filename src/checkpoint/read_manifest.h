#pragma once

#include <string>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr const char* kNotCommitted = "there is no manifest.json, so it was not committed";

// `path` may be a link. Throws Error(kCheckpoint) for a missing folder or manifest, and as
// parse_manifest().
Manifest read_manifest(const std::string& path);

// True even if the checkpoint is damaged now.
bool was_committed(const std::string& path);

}  // namespace sluice
