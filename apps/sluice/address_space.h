// Checks the limit on address space (ulimit -v) before LibTorch starts. LibTorch and its threads
// would end the process without an error of ours.
// Thread-safety: pure but for reading files.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// Throws Error(kMemory) if the limit leaves less than `more` bytes and a reserve for threads and
// the first tensors.
void require_address_space(std::uint64_t more = 0);

// Size in bytes of LibTorch's libraries in this folder (found_torch.h).
std::uint64_t bytes_of_torch(const std::string& folder);

}  // namespace sluice
