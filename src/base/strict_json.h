// JSON from files that users bring: bounded and unambiguous.
//
// Owns: parsing with a limit on depth and without duplicate keys, errors with line and column.
// Does not own: the meaning of the fields.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace sluice {

// Deeper documents are refused.
inline constexpr int kMaxJsonDepth = 64;

enum class KeyOrder { kSorted, kAsWritten };

// Throws Error(kInput) at "file:line:column": not JSON, not UTF-8, nested deeper than
// kMaxJsonDepth, a key twice in one object, bytes after the document, a NUL character, more than
// max_values values (a value takes up to 72 bytes of memory, but two in a text).
Json parse_strict_json(std::string_view text, const std::string& file_name,
                       KeyOrder order = KeyOrder::kSorted, std::size_t max_values = SIZE_MAX);

// Nothing for all that parse_strict_json refuses.
std::optional<Json> parse_json(std::string_view text);

// The place of a NUL, or npos. The JSON library takes one for the end of the text, so whoever calls
// it has to look.
std::size_t find_nul(std::string_view json);

}  // namespace sluice
