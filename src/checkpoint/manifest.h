// manifest.json: the contents of a checkpoint.
//
// Owns: the JSON form of a Manifest (checkpoint.h), its strict parser. Does not own: files, what
// fingerprints are made of (src/command).
// The format is a page: docs/checkpoints.md.
//
// Invariants of a parsed manifest (everything else is refused):
//  1. Files are plain names: weights directly in the checkpoint, optimizer state in "optimizer/",
//     the caller's own tensors in "extra/". A name is never absolute and never leads elsewhere.
//  2. Within a list names are unique; the tensors of one file do not overlap, and each has exactly
//     the bytes that its dtype and shape ask for.
//  3. The text is whole: it ends with a hash of all that is before.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/checkpoint.h"

namespace sluice {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kOptimizerFolder = "optimizer";
inline constexpr const char* kExtraFolder = "extra";
inline constexpr int kManifestVersion = 1;
inline constexpr std::size_t kMaxManifestBytes = std::size_t{256} << 20;

// The weights are those of an adapter (lora.h) alone, named as in adapter_model.safetensors; the
// rest of the model is the one that `fingerprints` tells of.
bool holds_adapter(const Manifest& manifest);

// Throws Error(kCheckpoint) "file: what" for a text that is not a manifest: torn, of another
// version, with an invariant broken. Time and memory are bounded by the length of the text.
Manifest parse_manifest(std::string_view text, const std::string& file);
// Deterministic; with a newline at its end. Precondition: the invariants hold.
std::string to_json(const Manifest& manifest);

}  // namespace sluice
