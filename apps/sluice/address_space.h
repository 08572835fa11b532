// The limit on address space (ulimit -v), before LibTorch and its threads run into it: they would
// end the process with words and exit codes of their own. Thread-safety: pure but for reading
// files.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// Throws Error(kMemory) where the limit is below what the process has, `more` bytes, and a reserve
// for threads and the first tensors.
void require_address_space(std::uint64_t more = 0);

// Bytes of LibTorch's libraries in this folder (found_torch.h).
std::uint64_t bytes_of_torch(const std::string& folder);

}  // namespace sluice
