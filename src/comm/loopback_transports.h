// Runs all ranks in one process over Gloo or NCCL.
#pragma once

#include <memory>
#include <vector>

#include "nccl/nccl_table.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Returns endpoints in rank order. With `nccl`, each rank needs its own device.
std::vector<std::unique_ptr<Transport>> make_loopback_transports(int num_ranks,
                                                                 const TransportOptions& options,
                                                                 const nccl::Table* nccl = nullptr);

}  // namespace sluice
