// The JSON of a manifest, read as a stream, so that a hostile text costs no more memory than what
// it says. No torch.
//
// Owns: the form of the JSON and of its values. Does not own: the seal (manifest_seal.h), whether
// the values fit each other (manifest_rules.h).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr std::string_view kManifestFormat = "sluice checkpoint";

// Throws Error(kCheckpoint) "file, list 'name'": not JSON, another format or version, a key that is
// missing, unknown, or there twice, a value of another type or out of range.
Manifest read_manifest_json(std::string_view text, const std::string& file);
[[noreturn]] void refuse_manifest(const std::string& file, const std::string& what,
                                  const std::string& place = {});

}  // namespace sluice
