#include "base/safetensors_header.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/safetensors_header_json.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using io::refuse_header;

struct DtypeRow {
  std::string_view name;
  int bits;
};
// In the reference package's order, which decides its file layout.
constexpr std::array<DtypeRow, 22> kDtypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

const DtypeRow* find_dtype(std::string_view dtype) {
  const auto row = std::find_if(kDtypes.begin(), kDtypes.end(),
                                [&](const DtypeRow& r) { return r.name == dtype; });
  return row == kDtypes.end() ? nullptr : row;
}

std::uint64_t checked_bytes(const SafetensorsEntry& entry, const std::string& file) {
  std::uint64_t bits = 1;
  for (const std::int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) {
      refuse_header(file, "the shape's number of elements overflows", entry.name);
    }
  }
  const auto element_bits = static_cast<std::uint64_t>(safetensors_dtype_bits(entry.dtype));
  if (__builtin_mul_overflow(bits, element_bits, &bits)) {
    refuse_header(file, "the shape's number of bytes overflows", entry.name);
  }
  if (bits % 8 != 0)
    refuse_header(file, "elements of " + entry.dtype + " do not fill whole bytes", entry.name);
  return bits / 8;
}

void check_layout(const SafetensorsHeader& header, std::uint64_t data_bytes,
                  const std::string& file) {
  std::uint64_t position = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != position || entry.end < entry.begin) {
      refuse_header(
          file,
          formatted("data_offsets [{}, {}] leave a hole or overlap: expected to start at {}",
                    entry.begin, entry.end, position),
          entry.name);
    }
    const std::uint64_t bytes = checked_bytes(entry, file);
    if (entry.end - entry.begin != bytes) {
      refuse_header(file,
                    formatted("data_offsets span {} bytes, but dtype and shape need {}",
                              entry.end - entry.begin, bytes),
                    entry.name);
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the header describes {} bytes of data, but the file has {}", position,
                           data_bytes),
         .where = file,
         .remedy = position > data_bytes ? "the file is truncated: copy or download it again"
                                         : io::kDamagedRemedy});
  }
}

void check_unique(const SafetensorsHeader& header, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(header.entries.size());
  for (const SafetensorsEntry& entry : header.entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse_header(file, "the name occurs twice", std::string(*twice));
}

std::string json_text(std::string_view text) { return Json(text).dump(); }

}  // namespace

int safetensors_dtype_bits(std::string_view dtype) {
  const DtypeRow* row = find_dtype(dtype);
  return row ? row->bits : 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& file) {
  SafetensorsHeader header = io::read_header_json(json, file);
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  check_unique(header, file);
  check_layout(header, data_bytes, file);
  return header;
}

void lay_out(SafetensorsHeader& header) {
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              const DtypeRow *dtype_a = find_dtype(a.dtype), *dtype_b = find_dtype(b.dtype);
              return dtype_a != dtype_b ? dtype_a > dtype_b : a.name < b.name;
            });
  std::uint64_t position = 0;
  for (SafetensorsEntry& entry : header.entries) {
    std::uint64_t bits = static_cast<std::uint64_t>(safetensors_dtype_bits(entry.dtype));
    for (const std::int64_t size : entry.shape) bits *= static_cast<std::uint64_t>(size);
    entry.begin = position;
    entry.end = position += bits / 8;
  }
}

std::string to_json(const SafetensorsHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text += json_text(io::kMetadataKey) + ":" + Json(header.metadata).dump();
  }
  for (const SafetensorsEntry& entry : header.entries) {
    if (text.size() > 1) text += ',';
    text += formatted("{}:{{\"dtype\":{},\"shape\":{},\"data_offsets\":[{},{}]}}",
                      json_text(entry.name), json_text(entry.dtype), Json(entry.shape).dump(),
                      entry.begin, entry.end);
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

namespace io {
namespace {

std::uint64_t read_length_prefix(const File& file, std::uint64_t file_size) {
  std::array<unsigned char, 8> bytes{};
  if (file_size < bytes.size()) {
    throw Error(ErrorKind::kInput,
                {.what = formatted(
                     "not a safetensors file: {} bytes, fewer than the 8 of the header's length",
                     file_size),
                 .where = file.path(),
                 .remedy = io::kDamagedRemedy});
  }
  file.read(bytes.data(), bytes.size(), 0);
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = (length << 8) | bytes[i];
  if (length > kMaxSafetensorsHeaderBytes) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("not a safetensors file: its first 8 bytes give a header of {} "
                                   "bytes, beyond the limit of {}",
                                   length, kMaxSafetensorsHeaderBytes),
                 .where = file.path(),
                 .remedy = io::kDamagedRemedy});
  }
  if (length > file_size - bytes.size()) {
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the header needs {} bytes, but the file has {} after its length",
                           length, file_size - bytes.size()),
         .where = file.path(),
         .remedy = "the file is truncated: copy or download it again"});
  }
  return length;
}

}  // namespace

ReadHeader read_header(const File& file) {
  const std::uint64_t size = file.size();
  std::string json(read_length_prefix(file, size), '\0');
  ReadHeader read;
  read.data_start = 8 + json.size();
  file.read(json.data(), json.size(), 8);
  read.header = parse_safetensors_header(json, size - read.data_start, file.path());
  return read;
}

}  // namespace io
}  // namespace sluice
