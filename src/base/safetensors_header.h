// The header of a safetensors file: 8 bytes little-endian length, JSON, then data
// (https://huggingface.co/docs/safetensors).
//
// The parser accepts only valid headers. Entries are in data order and cover the data without hole
// or overlap. end - begin is exactly the size of dtype and shape, without overflow. Names are
// unique; they are data, so never use one as a path.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // as in the file: "F32", "BF16", "I64"
  std::vector<std::int64_t> shape;   // {} is a scalar
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// The reference implementation's limit. It keeps a hostile length from claiming the memory.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Bits per element, or 0 for an unknown dtype.
int safetensors_dtype_bits(std::string_view dtype);

// `json` is followed by `data_bytes` bytes in the file. Throws Error(kInput) at "file, tensor
// 'name'". Rejects what the reference package rejects, and duplicate names
// (docs/hf-directories.md).
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& file);

// Sorts and places the entries as the reference package does: by dtype, wider ones first, then by
// name. Every tensor is then aligned to its element. Precondition: known dtypes.
void lay_out(SafetensorsHeader& header);

// The JSON text, padded with spaces so that length prefix and text together are a multiple of 8.
// Precondition: a valid header.
std::string to_json(const SafetensorsHeader& header);

}  // namespace sluice
