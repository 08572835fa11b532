// The header of a safetensors file: 8 bytes little-endian length, JSON, then data
// (https://huggingface.co/docs/safetensors).
//
// In a parsed header, entries are in data order and cover the data without hole or overlap. end -
// begin is the size of dtype and shape, without overflow. Names are unique; never use one as a
// path.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // "F32", "BF16", "I64"
  std::vector<std::int64_t> shape;   // {} is a scalar
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

// The reference package's limit, against hostile lengths.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Returns 0 for an unknown dtype.
int safetensors_dtype_bits(std::string_view dtype);

// `data_bytes` follow the JSON in the file. Throws Error(kInput) at "file, tensor 'name'". Rejects
// what the reference package rejects, and duplicate names (docs/hf-directories.md).
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& file);

// Sorts and places entries as the reference package does: by dtype, wider ones first, then by name.
// This aligns every tensor. Dtypes must be known.
void lay_out(SafetensorsHeader& header);

// Pads with spaces so that length prefix and JSON are a multiple of 8 bytes. The header must be
// valid.
std::string to_json(const SafetensorsHeader& header);

}  // namespace sluice
