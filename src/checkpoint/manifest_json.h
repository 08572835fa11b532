// Reads a manifest's JSON as a stream, so that a malicious text cannot use much memory.
#pragma once

#include <string>
#include <string_view>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr std::string_view kManifestFormat = "sluice checkpoint";

// Throws Error(kCheckpoint) for invalid JSON, keys, values, format or version.
Manifest read_manifest_json(std::string_view text, const std::string& file);
[[noreturn]] void refuse_manifest(const std::string& file, const std::string& what,
                                  const std::string& place = {});

}  // namespace sluice
