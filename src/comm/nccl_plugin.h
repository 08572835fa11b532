// Loads sluice's NCCL plug-in once per process.
#pragma once

#include <string>

#include "nccl/nccl_table.h"

namespace sluice {

struct FoundNccl {
  const nccl::Table* table = nullptr;
  std::string version;
  std::string missing;  // why `table` is null
};

// Call after loading LibTorch's CUDA library, which contains NCCL.
const FoundNccl& find_nccl();

std::string nccl_version_text(int version);

}  // namespace sluice
