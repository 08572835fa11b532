// The parameters that a rank updates: each whole, or, where the optimizer's state is sharded
// (zero1, zero3), the blocks that its replica owns; and how all replicas get those of the others.
// Thread-safety: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "sluice/parts/group.h"
#include "train/parameter_list.h"
#include "train/rank_model.h"

namespace sluice {

struct OwnBlocks {
  const SharedParameter* parameter;
  const ParameterUse* use;  // the first on this rank
  // The parameter, or the blocks: flat, sharing its memory unless that is sharded, too (zero3); one
  // that is not contiguous is one block.
  at::Tensor value;
  std::optional<ElementRange> range;  // range in the parameter; none: another replica has all
  bool is_part = false;               // `value` is flat

  // The same elements of a gradient of the whole, sharing its memory.
  at::Tensor part_of(const at::Tensor& gradient) const {
    return is_part && gradient.defined() ? elements_of(gradient, *range) : gradient;
  }
};

OwnBlocks whole_of(const SharedParameter& parameter, const ParameterUse& use);

// The blocks of every parameter that this rank uses and trains, in layer order.
std::vector<OwnBlocks> own_blocks(const RankModel& rank);

// Starts, where the state is sharded, to give the blocks of a stage to the other replicas, which
// have them whole when the work is done; else, and of what zero3 shards, nothing. Collective over
// the replicas.
Work<void> share_blocks(const RankModel& rank, int stage);

}  // namespace sluice
