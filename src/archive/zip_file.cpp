#include "archive/zip_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kEnd64Place = 0x07064b50;
constexpr std::size_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22,
                      kEnd64Bytes = 56, kEnd64PlaceBytes = 20, kMaxCommentBytes = 0xFFFF;
constexpr std::uint16_t kEncrypted = 1, kStrongEncryption = 1 << 6, kMaskedHeader = 1 << 13;
constexpr std::uint16_t kExtra64 = 1;

[[noreturn]] void refuse(std::string where, std::string what,
                         std::string remedy = "copy the file again or export the model again") {
  throw Error(ErrorKind::kInput,
              {.what = std::move(what), .where = std::move(where), .remedy = std::move(remedy)});
}

// Reads a little-endian number.
template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;)
    value = static_cast<T>((static_cast<std::uint64_t>(value) << 8) |
                           static_cast<unsigned char>(bytes[at + i]));
  return value;
}
std::uint16_t u16(std::string_view bytes, std::size_t at) {
  return number_at<std::uint16_t>(bytes, at);
}
std::uint32_t u32(std::string_view bytes, std::size_t at) {
  return number_at<std::uint32_t>(bytes, at);
}
std::uint64_t u64(std::string_view bytes, std::size_t at) {
  return number_at<std::uint64_t>(bytes, at);
}

std::string bytes_at(const ZipSource& source, std::uint64_t offset, std::size_t count) {
  if (offset > source.bytes || count > source.bytes - offset) {
    refuse(source.name,
           formatted("the zip file names {} bytes at {}, but has {}", count, offset, source.bytes));
  }
  std::string bytes(count, '\0');
  source.read(bytes.data(), count, offset);
  return bytes;
}

struct DirectoryPlace {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
  std::uint64_t end = 0;  // end of the directory and all entries
};

// Only the file's comment may follow the end record.
std::uint64_t find_end(const ZipSource& source, std::string& record) {
  const auto searched =
      static_cast<std::size_t>(std::min<std::uint64_t>(source.bytes, kEndBytes + kMaxCommentBytes));
  const std::string tail = bytes_at(source, source.bytes - searched, searched);
  for (std::size_t i = searched < kEndBytes ? 0 : searched - kEndBytes + 1; i-- > 0;) {
    if (u32(tail, i) == kEnd && i + kEndBytes + u16(tail, i + 20) == searched) {
      record = tail.substr(i, kEndBytes);
      return source.bytes - searched + i;
    }
  }
  refuse(source.name, "not a zip file, or cut off: it has no directory at its end");
}

DirectoryPlace find_directory(const ZipSource& source) {
  std::string record;
  DirectoryPlace place;
  place.end = find_end(source, record);
  const std::uint16_t disk = u16(record, 4), directory_disk = u16(record, 6);
  place.entries = u16(record, 10);
  place.bytes = u32(record, 12);
  place.offset = u32(record, 16);
  bool is_split =
      (disk != 0 && disk != 0xFFFF) || (directory_disk != 0 && directory_disk != 0xFFFF);
  const bool needs_64 =
      place.entries == 0xFFFF || place.bytes == 0xFFFFFFFF || place.offset == 0xFFFFFFFF;
  if (place.end >= kEnd64PlaceBytes) {
    const std::string locator = bytes_at(source, place.end - kEnd64PlaceBytes, kEnd64PlaceBytes);
    if (u32(locator, 0) == kEnd64Place) {
      const std::uint64_t at = u64(locator, 8);
      is_split = is_split || u32(locator, 4) != 0 || u32(locator, 16) > 1;
      if (at > place.end - kEnd64PlaceBytes || place.end - kEnd64PlaceBytes - at < kEnd64Bytes)
        refuse(source.name, formatted("the zip file has no 64-bit end record at {}", at));
      const std::string record_64 = bytes_at(source, at, kEnd64Bytes);
      // The stored size excludes the record's first twelve bytes (APPNOTE 4.3.14.1).
      const std::uint64_t left = place.end - kEnd64PlaceBytes - at - 12;
      if (u32(record_64, 0) != kEnd64 || u64(record_64, 4) != left)
        refuse(source.name, formatted("the zip file has no 64-bit end record at {}", at));
      is_split = is_split || u32(record_64, 16) != 0 || u32(record_64, 20) != 0;
      place = {.offset = u64(record_64, 48),
               .bytes = u64(record_64, 40),
               .entries = u64(record_64, 32),
               .end = at};
    } else if (needs_64) {
      refuse(source.name, "the zip file lacks its 64-bit end record");
    }
  } else if (needs_64) {
    refuse(source.name, "the zip file lacks its 64-bit end record");
  }
  if (is_split) {
    refuse(source.name, "the zip file is one of several parts",
           "put the parts together into one file");
  }
  if (place.offset > place.end || place.bytes != place.end - place.offset) {
    refuse(
        source.name,
        formatted("the zip file's directory, {} bytes at {}, does not end where its end record is",
                  place.bytes, place.offset));
  }
  if (place.bytes > ZipFile::kMaxDirectoryBytes) {
    refuse(source.name, formatted("the zip file's directory has {} bytes, beyond the limit of {}",
                                  place.bytes, ZipFile::kMaxDirectoryBytes));
  }
  if (place.entries > place.bytes / kDirectoryEntryBytes) {
    refuse(source.name, formatted("the zip file's directory of {} bytes cannot hold {} entries",
                                  place.bytes, place.entries));
  }
  return place;
}

// Replaces numbers of all one bits by 64-bit values, in the order of APPNOTE 4.5.3.
void apply_extra_64(std::string_view extra, const std::string& where,
                    std::initializer_list<std::uint64_t*> numbers) {
  if (std::ranges::none_of(numbers, [](const auto* number) { return *number == 0xFFFFFFFF; }))
    return;
  while (extra.size() >= 4) {
    const std::size_t length = u16(extra, 2);
    if (length > extra.size() - 4) break;
    if (u16(extra, 0) == kExtra64) {
      std::string_view rest = extra.substr(4, length);
      for (std::uint64_t* number : numbers) {
        if (*number != 0xFFFFFFFF) continue;
        if (rest.size() < 8) refuse(where, "the entry's 64-bit sizes are cut off");
        *number = u64(rest, 0);
        rest.remove_prefix(8);
      }
      return;
    }
    extra.remove_prefix(4 + length);
  }
  refuse(where, "the entry needs 64-bit sizes, but has none");
}

// Moves entry.offset behind the local header, which must repeat the name.
void read_local_header(const ZipSource& source, ZipEntry& entry, const std::string& where) {
  const std::string header = bytes_at(source, entry.offset, kLocalHeaderBytes);
  if (u32(header, 0) != kLocalHeader)
    refuse(where,
           formatted("the directory places an entry at {}, but none starts there", entry.offset));
  if (u16(header, 6) & (kEncrypted | kStrongEncryption | kMaskedHeader))
    refuse(where, "the entry is encrypted", "export the model again");
  if (u16(header, 8) != 0)
    refuse(where, "the entry is compressed", "keep the archive as torch.export.save writes it");
  const std::size_t name_bytes = u16(header, 26), extra_bytes = u16(header, 28);
  if (name_bytes != entry.name.size() ||
      bytes_at(source, entry.offset + kLocalHeaderBytes, name_bytes) != entry.name)
    refuse(where, "the entry's header and the directory name it differently");
  entry.offset += kLocalHeaderBytes + name_bytes + extra_bytes;
}

}  // namespace

std::uint32_t zip_checksum(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0xEDB88320U : 0U);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t sum = 0xFFFFFFFF;
  for (const char byte : bytes)
    sum = kTable[(sum ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (sum >> 8);
  return ~sum;
}

ZipFile ZipFile::open(const std::string& path) {
  auto file = std::make_shared<const File>(File::open(path));
  const std::uint64_t bytes = file->size();
  return ZipFile({.name = path,
                  .bytes = bytes,
                  .read = [file](void* buffer, std::size_t count, std::uint64_t offset) {
                    file->read(buffer, count, offset);
                  }});
}

ZipFile::ZipFile(ZipSource source) : source_(std::move(source)) { read_directory(); }

void ZipFile::read_directory() {
  const DirectoryPlace place = find_directory(source_);
  const std::string directory =
      bytes_at(source_, place.offset, static_cast<std::size_t>(place.bytes));
  std::string_view rest = directory;
  entries_.reserve(static_cast<std::size_t>(place.entries));
  for (std::uint64_t i = 0; i < place.entries; ++i) {
    const std::string number = formatted("{}, entry {} of its directory", source_.name, i);
    if (rest.size() < kDirectoryEntryBytes || u32(rest, 0) != kDirectoryEntry)
      refuse(number, "the directory is damaged: no entry is there");
    const std::uint16_t flags = u16(rest, 8), method = u16(rest, 10);
    const std::size_t name_bytes = u16(rest, 28), extra_bytes = u16(rest, 30),
                      comment_bytes = u16(rest, 32);
    std::uint64_t packed = u32(rest, 20), bytes = u32(rest, 24), offset = u32(rest, 42);
    const std::uint32_t crc = u32(rest, 16);
    const std::uint16_t disk = u16(rest, 34);
    rest.remove_prefix(kDirectoryEntryBytes);
    if (name_bytes + extra_bytes + comment_bytes > rest.size())
      refuse(number, "the directory is damaged: the entry is cut off");
    ZipEntry entry{.name = std::string(rest.substr(0, name_bytes))};
    const std::string_view extra = rest.substr(name_bytes, extra_bytes);
    rest.remove_prefix(name_bytes + extra_bytes + comment_bytes);
    if (entry.name.empty() || entry.name.find('\0') != std::string::npos)
      refuse(number, "the entry has no name");
    const std::string where = source_.name + ", entry '" + entry.name + "'";
    apply_extra_64(extra, where, {&bytes, &packed, &offset});
    if (disk != 0 && disk != 0xFFFF)
      refuse(where, "the entry is in another part of a zip file of several parts",
             "put the parts together into one file");
    if (flags & (kEncrypted | kStrongEncryption | kMaskedHeader))
      refuse(where, "the entry is encrypted", "export the model again");
    if (method != 0 || packed != bytes)
      refuse(where, "the entry is compressed", "keep the archive as torch.export.save writes it");
    entry.offset = offset;
    entry.bytes = bytes;
    entry.crc = crc;
    entries_.push_back(std::move(entry));
  }
  if (!rest.empty()) {
    refuse(source_.name, formatted("the zip file's directory has {} bytes after its {} entries",
                                   rest.size(), place.entries));
  }
  std::ranges::sort(entries_, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &ZipEntry::name);
  if (twice != entries_.end())
    refuse(source_.name + ", entry '" + twice->name + "'", "two entries have this name");
  place_contents(place.offset);
}

// Finds contents by local headers. Contents may not overlap.
void ZipFile::place_contents(std::uint64_t directory) {
  std::vector<ZipEntry*> by_place;
  by_place.reserve(entries_.size());
  for (ZipEntry& entry : entries_) by_place.push_back(&entry);
  std::ranges::sort(by_place, {}, [](const ZipEntry* entry) { return entry->offset; });
  std::uint64_t taken = 0;
  for (ZipEntry* entry : by_place) {
    const std::string where = source_.name + ", entry '" + entry->name + "'";
    if (entry->offset < taken) refuse(where, "the entry overlaps another");
    read_local_header(source_, *entry, where);
    if (entry->offset > directory || entry->bytes > directory - entry->offset) {
      refuse(where, formatted("the entry's {} bytes at {} reach beyond the {} before the directory",
                              entry->bytes, entry->offset, directory));
    }
    taken = entry->offset + entry->bytes;
  }
}

const ZipEntry* ZipFile::find(std::string_view name) const {
  const auto entry = std::ranges::lower_bound(
      entries_, name, {}, [](const ZipEntry& each) { return std::string_view(each.name); });
  return entry != entries_.end() && entry->name == name ? &*entry : nullptr;
}

std::string ZipFile::read(const ZipEntry& entry, std::uint64_t max_bytes) const {
  const std::string where = source_.name + ", entry '" + entry.name + "'";
  if (entry.bytes > max_bytes) {
    refuse(where,
           formatted("the entry has {} bytes, beyond the limit of {}", entry.bytes, max_bytes),
           "export a smaller model");
  }
  std::string content = bytes_at(source_, entry.offset, static_cast<std::size_t>(entry.bytes));
  if (zip_checksum(content) != entry.crc)
    refuse(where, "the entry's bytes do not match their checksum in the directory");
  return content;
}

}  // namespace sluice::detail
