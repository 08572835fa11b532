// JSON from files that users bring: bounded and unambiguous.
//
// Owns: parsing with a limit on depth and without duplicate keys, errors with line and column.
// Does not own: what the fields mean.
// Thread-safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace sluice {

// Deeper documents are refused.
inline constexpr int kMaxJsonDepth = 64;

// Throws Error(kInput) at "file:line:column": not JSON, not UTF-8, nested deeper than
// kMaxJsonDepth, a key twice in one object, bytes after the document.
nlohmann::json parse_strict_json(std::string_view text, const std::string& file_name);

// The whole file. Throws Error(kInput): missing, a folder, not readable, larger than max_bytes.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

}  // namespace sluice
