// Files by size and content, as far as reading them takes seconds at most.
//
// Owns: which bytes of a list of files count; names, paths and times never do. Does not own: what
// the files are. Thread-safety: pure functions of the files.
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

// The bytes of a file that are read: all of it, up to kWholeFileBytes in a list of up to
// kWholeListBytes; else at most kMostSampledBytes, and kWholeListBytes / num_files, in blocks of
// kSampledBlockBytes, the first and the last of the file and others evenly between them
// (docs/training.md).
std::uint64_t counted_bytes(std::uint64_t size, std::uint64_t list_bytes, std::size_t num_files);

// Adds sizes and content, in this order, and returns the size of all. Throws Error(kInput).
std::uint64_t add_files(const std::vector<std::string>& files, ContentHash& hash);
// The same of any number of files, as images: all sizes, and the content of the first kMostFiles or
// of so many evenly among more. Adds nothing for no file.
inline constexpr std::size_t kMostFiles = kWholeListBytes / (2 * kSampledBlockBytes);
std::uint64_t add_many_files(const std::vector<std::string>& files, ContentHash& hash);

}  // namespace sluice
