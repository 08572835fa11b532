#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/safetensors_header.h"

namespace sluice {

class File;

namespace io {

inline constexpr std::string_view kMetadataKey = "__metadata__";

inline constexpr const char* kDamagedRemedy = "the file is damaged: copy or download it again";

// Throws Error(kInput) at "file, tensor 'name'" with kDamagedRemedy.
[[noreturn]] void refuse_header(const std::string& file, const std::string& what,
                                const std::string& name = {});

// Reads the tensors in text order. Each has its three fields and a known dtype; offsets and shapes
// are not checked yet. Throws as parse_safetensors_header().
SafetensorsHeader read_header_json(std::string_view json, const std::string& file);

struct ReadHeader {
  SafetensorsHeader header;
  std::uint64_t data_start = 0;
};
// Reads a file's header and its length. Throws as parse_safetensors_header().
ReadHeader read_header(const File& file);

}  // namespace io
}  // namespace sluice
