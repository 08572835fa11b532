// Checks `ulimit -v` before LibTorch starts. Otherwise LibTorch or one of its threads would end the
// process without our error message.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// Throws Error(kMemory) if the limit does not leave `more` bytes plus a reserve for threads and the
// first tensors.
void require_address_space(std::uint64_t more = 0);

// Size of LibTorch's libraries in bytes. `folder` is FoundTorch::folder.
std::uint64_t bytes_of_torch(const std::string& folder);

}  // namespace sluice
