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

// Sends blocks from their owners to all replicas. Collective over the replicas. blocks: by owner,
// with equal ranges on all replicas. Reads this replica's blocks at once, and writes others when
// the Work is done. before_writing: called before the writes, if set.
Work<void> gather_blocks(const RunGroups& groups, std::vector<std::vector<TensorBlock>> blocks,
                         std::function<void()> before_writing = {});

}  // namespace sluice
