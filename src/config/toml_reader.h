// Reading TOML: the one place that knows the TOML library.
//
// Hostile text is an error: files above 1 MiB, keys of more than 16 parts, nesting above 256.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace sluice::detail {

constexpr std::size_t kMaxTomlBytes = std::size_t{1} << 20;

struct RawKey {
  std::string section;  // "" for a key above the first section
  std::string name;     // "" for the section itself, when it is not a table
  RawValue value;
  Position position;  // position of the key
};

// The keys of all sections, in the order of the file. A section that is empty gives one RawKey
// without name, so that unknown sections are seen. Throws Error(kUsage) "file:line:column".
std::vector<RawKey> read_toml(std::string_view text, const std::string& file);

// The text of a configuration: a file, or what a program writes into `<(...)`. Throws Error(kUsage)
// when it cannot be read, or is longer than kMaxTomlBytes.
std::string read_config_file(const std::string& file);

// The value of an override: TOML, or else the text itself as a string.
RawValue read_toml_value(const std::string& text);

}  // namespace sluice::detail
