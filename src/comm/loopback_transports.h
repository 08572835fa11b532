// All ranks of a run in this process, each a process of its own: for transport = "gloo" without a
// launcher, to see what the link costs and to debug it. Thread-safety: as Transport.
#pragma once

#include <memory>
#include <vector>

#include "nccl/nccl_table.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Endpoints in the order of the ranks. nccl: as GlooLinkOptions; the ranks have a device each then.
// Throws Error(kPeer) as make_gloo_link().
std::vector<std::unique_ptr<Transport>> make_loopback_transports(int num_ranks,
                                                                 const TransportOptions& options,
                                                                 const nccl::Table* nccl = nullptr);

}  // namespace sluice
