// NCCL as this process finds it: the plug-in that fills the table of its functions, loaded after
// LibTorch's CUDA library, which brings NCCL along.
//
// Owns: the loading, once a process. Does not own: the table (nccl/nccl_table.h), who uses it.
// Thread-safety: pure function.
#pragma once

#include <string>

#include "nccl/nccl_table.h"

namespace sluice {

struct FoundNccl {
  const nccl::Table* table = nullptr;
  std::string version;  // "2.29.7", of the library
  std::string missing;  // where there is no table: the reason
};

// Precondition: LibTorch's CUDA library is loaded (devices_of_ranks).
const FoundNccl& find_nccl();

// "2.29.7", of NCCL's number.
std::string nccl_version_text(int version);

}  // namespace sluice
