// Checks `ulimit -v` before LibTorch starts, because LibTorch would otherwise end the process
// without our error message.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// Throws Error(kMemory) unless the limit leaves `more` bytes and a reserve for threads and first
// tensors.
void require_address_space(std::uint64_t more = 0);

// Bytes of LibTorch's libraries. `folder` is FoundTorch::folder.
std::uint64_t bytes_of_torch(const std::string& folder);

}  // namespace sluice
