// Hashes files by size and content, not by names, paths and times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/content_hash.h"

namespace sluice {

inline constexpr std::uint64_t kWholeFileBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kWholeListBytes = std::uint64_t{4} << 30;
inline constexpr std::uint64_t kSampledBlockBytes = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMostSampledBytes = std::uint64_t{64} << 20;

// Returns how many bytes of a file are hashed, which limits the time to seconds. Files up to
// kWholeFileBytes in a list of up to kWholeListBytes are read whole. Others are sampled in blocks
// of kSampledBlockBytes at even distances, with the first and last. Samples have at most
// kMostSampledBytes, and kWholeListBytes / num_files (docs/training.md).
std::uint64_t counted_bytes(std::uint64_t size, std::uint64_t list_bytes, std::size_t num_files);

// Adds the sizes and contents of all files to `hash`. Returns the total size. Throws Error(kInput).
std::uint64_t add_files(const std::vector<std::string>& files, ContentHash& hash);
// add_many_files() hashes the content of at most kMostFiles files, such as images.
inline constexpr std::size_t kMostFiles = kWholeListBytes / (2 * kSampledBlockBytes);
std::uint64_t add_many_files(const std::vector<std::string>& files, ContentHash& hash);

}  // namespace sluice
