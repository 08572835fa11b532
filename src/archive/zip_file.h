// The directory of a zip file whose entries are stored as they are: names, and where their bytes
// lie.
//
// Owns: reading and checking the directory, the bytes of small entries. Does not own: what is in
// them; packed (deflated) or encrypted entries, which are refused.
// Format: PKWARE's APPNOTE.TXT 6.3.9, with the 64-bit records of its sections 4.3.14 and 4.3.15.
//
// Invariants of what was read:
//  1. names are unique, not empty and without NUL; they are data, never used as a path;
//  2. the bytes of every entry lie inside the file, before its directory, and overlap no other
//  entry;
//  3. an entry is stored: its bytes in the file are its content.
// Thread-safety: values; concurrent reads of one ZipFile are fine where the source allows them.
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
  std::uint64_t offset = 0;  // of the first byte of its content in the file
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

// The source that a zip file is read from.
struct ZipSource {
  std::string name;  // for messages
  std::uint64_t bytes = 0;
  std::function<void(void* buffer, std::size_t count, std::uint64_t offset)> read;
};

class ZipFile {
 public:
  // Both throw Error(kInput) at "FILE" or "FILE, entry 'NAME'": no zip file, a truncated one, one
  // of several parts, a packed, encrypted, doubled or overlapping entry, a place outside the file,
  // a directory above kMaxDirectoryBytes.
  static ZipFile open(const std::string& path);
  explicit ZipFile(ZipSource source);

  const std::string& name() const { return source_.name; }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // sorted by name
  const ZipEntry* find(std::string_view name) const;                 // nullptr: none

  // The content. Throws Error(kInput): more than max_bytes, another checksum than the directory
  // has.
  std::string read(const ZipEntry& entry, std::uint64_t max_bytes) const;

  static constexpr std::uint64_t kMaxDirectoryBytes = 64 << 20;

 private:
  void read_directory();
  void place_contents(std::uint64_t directory);

  ZipSource source_;
  std::vector<ZipEntry> entries_;
};

// The checksum of zip files (ISO 3309, polynomial 0xEDB88320).
std::uint32_t zip_checksum(std::string_view bytes);

}  // namespace sluice::detail
