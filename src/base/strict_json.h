// Parses JSON from users' files.
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

// Throws Error(kInput) at "file:line:column" for invalid JSON or UTF-8, nesting deeper than
// kMaxJsonDepth, duplicate keys, bytes after the document, NUL characters, or more than max_values
// values. A value takes up to 72 bytes of memory plus its text.
Json parse_strict_json(std::string_view text, const std::string& file_name,
                       KeyOrder order = KeyOrder::kSorted, std::size_t max_values = SIZE_MAX);

// std::nullopt for everything that parse_strict_json() rejects.
std::optional<Json> parse_json(std::string_view text);

// The position of a NUL, or npos. The JSON library treats NUL as the end of the text, so callers
// must check for it.
std::size_t find_nul(std::string_view json);

}  // namespace sluice
