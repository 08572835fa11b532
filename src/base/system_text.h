// Reads small text files of the system or LibTorch, such as those of /proc. No torch.
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <cstddef>
#include <string>

namespace sluice {

// The whole text, or "" if the file is missing, unreadable or longer than max_bytes.
std::string read_text_or_empty(const std::string& path, std::size_t max_bytes);

}  // namespace sluice
