#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "archive/zip_file.h"

namespace sluice::test {

struct ZipPart {
  std::string name, content;
  // Values other than the defaults replace the correct ones in the central directory.
  std::uint16_t method = 0, flags = 0, disk = 0;
  std::int64_t bytes = -1, packed = -1, offset = -1, crc = -1;
  std::string local_name = {};  // name in the local header; "": same as `name`
  // bytes of extra field in the local header, as torch adds to align contents
  std::size_t padding = 0;
  bool is_64 = false;  // sizes and offset are in a 64-bit extra field
};

struct ZipShape {
  bool is_64 = false;
  std::string comment = {};
  std::int64_t entries = -1, directory_bytes = -1, directory_offset = -1;
};

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xFF);
  return text;
}

inline std::string zip_bytes(const std::vector<ZipPart>& parts, const ZipShape& shape = {}) {
  const auto u16 = [](std::uint64_t value) { return little_endian(value, 2); };
  const auto u32 = [](std::uint64_t value) { return little_endian(value, 4); };
  const auto u64 = [](std::uint64_t value) { return little_endian(value, 8); };
  const auto given = [](std::int64_t value, std::uint64_t otherwise) {
    return value < 0 ? otherwise : static_cast<std::uint64_t>(value);
  };
  std::string file, directory;
  for (const ZipPart& part : parts) {
    const std::uint64_t offset = given(part.offset, file.size());
    const std::uint64_t bytes = given(part.bytes, part.content.size());
    const std::uint64_t packed = given(part.packed, bytes);
    const std::uint64_t crc = given(part.crc, detail::zip_checksum(part.content));
    const std::string& local = part.local_name.empty() ? part.name : part.local_name;
    file += "PK\3\4" + u16(20) + u16(part.flags) + u16(part.method) + u32(0) + u32(crc) +
            u32(packed) + u32(bytes) + u16(local.size()) + u16(part.padding) + local +
            std::string(part.padding, 'Z') + part.content;
    const std::string extra = part.is_64 ? u16(7) + u16(2) + "ab" + u16(1) + u16(24) + u64(bytes) +
                                               u64(packed) + u64(offset)
                                         : "";
    const auto narrow = [&](std::uint64_t value) { return u32(part.is_64 ? 0xFFFFFFFF : value); };
    directory += "PK\1\2" + u16(20) + u16(20) + u16(part.flags) + u16(part.method) + u32(0) +
                 u32(crc) + narrow(packed) + narrow(bytes) + u16(part.name.size()) +
                 u16(extra.size()) + u16(0) + u16(part.disk) + u16(0) + u32(0) + narrow(offset) +
                 part.name + extra;
  }
  const std::uint64_t place = given(shape.directory_offset, file.size());
  const std::uint64_t bytes = given(shape.directory_bytes, directory.size());
  const std::uint64_t entries = given(shape.entries, parts.size());
  file += directory;
  if (shape.is_64) {
    const std::uint64_t record = file.size();
    file += "PK\6\6" + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(entries) + u64(entries) +
            u64(bytes) + u64(place);
    file += "PK\6\7" + u32(0) + u64(record) + u32(1);
  }
  file += "PK\5\6" + u16(0) + u16(0) + u16(shape.is_64 ? 0xFFFF : entries) +
          u16(shape.is_64 ? 0xFFFF : entries) + u32(shape.is_64 ? 0xFFFFFFFF : bytes) +
          u32(shape.is_64 ? 0xFFFFFFFF : place) + u16(shape.comment.size()) + shape.comment;
  return file;
}

// Opens a zip file in memory. `bytes` must outlive the result.
inline detail::ZipFile zip_of(const std::string& bytes, const std::string& name = "a.pt2") {
  return detail::ZipFile({.name = name,
                          .bytes = bytes.size(),
                          .read = [&bytes](void* buffer, std::size_t count, std::uint64_t offset) {
                            bytes.copy(static_cast<char*>(buffer), count,
                                       static_cast<std::size_t>(offset));
                          }});
}

}  // namespace sluice::test
