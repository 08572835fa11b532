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

[[noreturn]] void refuse_header(const std::string& file, const std::string& what,
                                const std::string& name = {});

// Checks each tensor's three fields and dtype, but not offsets and shapes. Throws Error(kInput).
SafetensorsHeader read_header_json(std::string_view json, const std::string& file);

struct ReadHeader {
  SafetensorsHeader header;
  std::uint64_t data_start = 0;
};
ReadHeader read_header(const File& file);

}  // namespace io
}  // namespace sluice
