// Reads zip files whose entries are neither compressed nor encrypted (PKWARE's APPNOTE.TXT 6.3.9,
// with the 64-bit records of 4.3.14 and 4.3.15). Names are unique, and never used as paths. Entries
// do not overlap.
//
// Threads may read one ZipFile at once if its source allows concurrent reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  // of the content
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

struct ZipSource {
  std::string name;
  std::uint64_t bytes = 0;
  std::function<void(void* buffer, std::size_t count, std::uint64_t offset)> read;
};

class ZipFile {
 public:
  // Both throw Error(kInput) at "FILE" or "FILE, entry 'NAME'" if a rule above is broken, an entry
  // lies outside the file, or the directory is too long.
  static ZipFile open(const std::string& path);
  explicit ZipFile(ZipSource source);

  const std::string& name() const { return source_.name; }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // sorted by name
  const ZipEntry* find(std::string_view name) const;

  // Throws Error(kInput) if the content is longer than max_bytes or has the wrong checksum.
  std::string read(const ZipEntry& entry, std::uint64_t max_bytes) const;

  static constexpr std::uint64_t kMaxDirectoryBytes = 64 << 20;

 private:
  void read_directory();
  void place_contents(std::uint64_t directory);

  ZipSource source_;
  std::vector<ZipEntry> entries_;
};

// CRC-32: ISO 3309, polynomial 0xEDB88320.
std::uint32_t zip_checksum(std::string_view bytes);

}  // namespace sluice::detail
