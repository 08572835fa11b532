// All ranks of a run in this process, each a node of its own: for transport = "gloo" without a
// launcher, to see what the wire costs and to debug it.
#pragma once

#include <memory>
#include <vector>

#include "sluice/parts/transport.h"

namespace sluice {

// Endpoints in the order of the ranks. Throws Error(kPeer) as make_gloo_wire().
std::vector<std::unique_ptr<Transport>> make_loopback_nodes(int num_ranks,
                                                            const TransportOptions& options);

}  // namespace sluice
