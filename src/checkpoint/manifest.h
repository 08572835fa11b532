// The file manifest.json, which lists the contents of a checkpoint (docs/checkpoints.md).
//
// Invariants of a parsed manifest:
// 1. File names are plain, so they cannot lead outside the checkpoint. Weights are directly in it,
//    optimizer state in "optimizer/", the user's own tensors in "extra/".
// 2. Names in a list are unique. Tensors in a file do not overlap, and have exactly the bytes of
//    their dtype and shape.
// 3. The text ends with a hash of everything before it.
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

// Whether the weights are only an adapter's (lora.h). `fingerprints` then identifies the base
// model.
bool holds_adapter(const Manifest& manifest);

// Throws Error(kCheckpoint) if the text breaks an invariant. A text above kMaxManifestBytes is
// rejected before it is parsed, which bounds time and memory.
Manifest parse_manifest(std::string_view text, const std::string& file);
// Requires that the manifest's invariants hold.
std::string to_json(const Manifest& manifest);

}  // namespace sluice
