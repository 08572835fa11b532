// The JSON of a safetensors header, read as a stream; and how a header is refused. No torch.
//
// Owns: the form of the JSON. Does not own: whether the entries fit the file
// (safetensors_header.cpp).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/safetensors_header.h"

namespace sluice {

class File;

namespace io {

inline constexpr std::string_view kMetadataKey = "__metadata__";

// The remedy for a file that is not what its format says.
inline constexpr const char* kDamagedRemedy = "the file is damaged: copy or download it again";

// Throws Error(kInput) "file, tensor 'name'" with that remedy.
[[noreturn]] void refuse_header(const std::string& file, const std::string& what,
                                const std::string& name = {});

// The tensors in the order of the text, each with its three fields and a dtype of the format;
// offsets and shapes are not yet compared with anything. Throws Error(kInput) as
// parse_safetensors_header().
SafetensorsHeader read_header_json(std::string_view json, const std::string& file);

struct ReadHeader {
  SafetensorsHeader header;
  std::uint64_t data_start = 0;
};
// The header of a file, with its length, by parse_safetensors_header(): throws what that throws.
ReadHeader read_header(const File& file);

}  // namespace io
}  // namespace sluice
