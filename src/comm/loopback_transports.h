// Runs transport = "gloo" without a launcher: every rank gets its own link within this process.
// Useful to debug the link or to measure its cost.
#pragma once

#include <memory>
#include <vector>

#include "nccl/nccl_table.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Endpoints in rank order. If `nccl` is set, each rank needs its own device. Throws Error(kPeer).
std::vector<std::unique_ptr<Transport>> make_loopback_transports(int num_ranks,
                                                                 const TransportOptions& options,
                                                                 const nccl::Table* nccl = nullptr);

}  // namespace sluice
