#pragma once

#include <memory>

#include "comm/gloo_link.h"
#include "sluice/parts/transport.h"

namespace sluice {

// Makes the endpoint of a rank that has a Gloo link of its own, as if it were the only rank of its
// process. Fills in the counts, numbers and transfer deadline of `link`. Collective over the ranks.
// Throws Error(kPeer) if ranks are missing.
std::unique_ptr<Transport> make_single_rank_transport(const c10::intrusive_ptr<c10d::Store>& store,
                                                      int rank, int num_ranks,
                                                      const TransportOptions& options,
                                                      GlooLinkOptions link);

}  // namespace sluice
