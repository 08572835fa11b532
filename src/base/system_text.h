// Small text files that the system or LibTorch brings along, such as those of /proc. No torch.
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <cstddef>
#include <string>

namespace sluice {

// The whole text; "" where the file is missing, cannot be read, or is longer than max_bytes.
std::string read_text_or_empty(const std::string& path, std::size_t max_bytes);

}  // namespace sluice
