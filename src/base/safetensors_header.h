// The header of a safetensors file: which tensors it holds, and where. No torch.
//
// Owns: SafetensorsHeader, its strict parser, its writer.
// Does not own: files and tensor bytes (safetensors.h), names of a model (hf_directory.h).
// Format: https://huggingface.co/docs/safetensors (8 bytes little-endian length, JSON, data).
//
// Invariants of a parsed header (everything else is refused):
//  1. Entries are in the order of their data and cover it without hole or overlap, from 0 to the
//  end.
//  2. end - begin is exactly the size that dtype and shape ask for; no multiplication overflowed.
//  3. Names are unique. They are data: a name is never used as a path.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // as the file says it: "F32", "BF16", "I64"
  std::vector<std::int64_t> shape;   // {} is a scalar
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// The reference implementation's limit, so a hostile length cannot claim the memory.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Bits of one element, 0 for a dtype that the format does not know.
int safetensors_dtype_bits(std::string_view dtype);

// json: the header's bytes; data_bytes: how many bytes follow it in the file.
// Throws Error(kInput) "file, tensor 'name'" with the reason. Refuses what the reference package
// refuses, and also names that occur twice (docs/hf-directories.md).
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& file);

// Sorts the entries and gives each its place, both as the reference package does: by dtype, wider
// ones first, then by name, so every tensor is aligned to its element. Precondition: known dtypes.
void lay_out(SafetensorsHeader& header);

// The JSON text, padded with spaces so that length prefix and text together are a multiple of 8.
// Precondition: the invariants hold.
std::string to_json(const SafetensorsHeader& header);

}  // namespace sluice
