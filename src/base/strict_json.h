#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace sluice {

inline constexpr int kMaxJsonDepth = 64;

enum class KeyOrder { kSorted, kAsWritten };

// Throws Error(kInput) at "file:line:column" for invalid JSON or UTF-8, nesting beyond
// kMaxJsonDepth, duplicate keys, trailing bytes, NUL, or more than max_values values. A value may
// take 72 bytes in memory.
Json parse_strict_json(std::string_view text, const std::string& file_name,
                       KeyOrder order = KeyOrder::kSorted, std::size_t max_values = SIZE_MAX);

// std::nullopt where parse_strict_json() throws.
std::optional<Json> parse_json(std::string_view text);

// Position of a NUL, or npos. The JSON library ends the text at a NUL, so its callers must check.
std::size_t find_nul(std::string_view json);

}  // namespace sluice
