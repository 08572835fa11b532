// Reads TOML. Untrusted text is safe: files above 1 MiB, keys of more than 16 parts and nesting
// above 256 levels are errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace sluice::detail {

constexpr std::size_t kMaxTomlBytes = std::size_t{1} << 20;

struct RawKey {
  std::string section;
  std::string name;  // "" for an empty section, so that unknown sections are reported
  RawValue value;
  Position position;
};

// Returns the keys in file order. Throws Error(kUsage) with "file:line:column".
std::vector<RawKey> read_toml(std::string_view text, const std::string& file);

// Throws Error(kUsage) if the file or pipe is unreadable or longer than kMaxTomlBytes.
std::string read_config_file(const std::string& file);

// Text that is not TOML becomes a string.
RawValue read_toml_value(const std::string& text);

}  // namespace sluice::detail
