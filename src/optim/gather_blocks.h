#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "engine/run_groups.h"
#include "optim/block_ranges.h"

namespace sluice {

struct TensorBlock {
  at::Tensor whole;
  ElementRange range;
  at::Tensor own = {};  // the owner's elements, flat; if undefined, `whole` has them
};

// Blocks of parameters by owning replica. Replicas hold other experts than this one, so they have
// equal lists only of `shared`, and of `experts` if they hold the same.
struct OwnedBlocks {
  explicit OwnedBlocks(const RunGroups& groups)
      : shared(static_cast<std::size_t>(groups.num_replicas)), experts(shared.size()) {}
  void add(bool is_expert, int replica, TensorBlock block) {
    (is_expert ? experts : shared)[static_cast<std::size_t>(replica)].push_back(std::move(block));
  }

  std::vector<std::vector<TensorBlock>> shared, experts;
};

// Sends blocks from their owners to all replicas that hold them. Collective over the replicas.
// Reads this replica's blocks at once, and writes others when the Work is done. before_writing:
// called before the writes, if set.
Work<void> gather_blocks(const RunGroups& groups, const OwnedBlocks& blocks,
                         std::function<void()> before_writing = {});

}  // namespace sluice
