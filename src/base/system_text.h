#pragma once

#include <cstddef>
#include <string>

namespace sluice {

// For files such as those in /proc. Returns "" if the file is missing, unreadable or longer than
// max_bytes.
std::string read_text_or_empty(const std::string& path, std::size_t max_bytes);

}  // namespace sluice
