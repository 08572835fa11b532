// Blocks that replicas own go from their owners to all.
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "engine/run_groups.h"
#include "optim/block_ranges.h"

namespace sluice {

// Some elements of a tensor, which may be all.
struct TensorBlock {
  at::Tensor whole;
  ElementRange range;
  at::Tensor own = {};  // where the owner has them, flat; undefined: in `whole`
};

// Collective over the replicas. blocks: [replica], the same on all but for what the tensors hold.
// Starts with what this replica's own hold now; when the work is done, all of them hold what their
// owners' did. before_writing (may be empty) is called then, before others' blocks are written.
Work<void> gather_blocks(const RunGroups& groups, std::vector<std::vector<TensorBlock>> blocks,
                         std::function<void()> before_writing = {});

}  // namespace sluice
