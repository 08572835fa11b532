// Reads TOML. Only this file's source includes the TOML library.
//
// Untrusted text is safe: files above 1 MiB, keys of more than 16 parts and nesting above 256
// levels are errors.
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
  std::string name;     // "" if the RawKey stands for the section itself
  RawValue value;
  Position position;
};

// Returns the keys of all sections in file order. An empty section yields one RawKey without a
// name, so that unknown sections are noticed. Throws Error(kUsage) with "file:line:column".
std::vector<RawKey> read_toml(std::string_view text, const std::string& file);

// Reads a regular file or a pipe such as `<(...)`. Throws Error(kUsage) if it cannot be read or is
// longer than kMaxTomlBytes.
std::string read_config_file(const std::string& file);

// Parses the value of an override as TOML. Text that is not TOML becomes a string.
RawValue read_toml_value(const std::string& text);

}  // namespace sluice::detail
