// The parameters that a rank updates. They are whole or, with zero1 and zero3, the blocks that its
// replica owns.
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
  const ParameterUse* use;  // its first use on this rank
  // The parameter, or its own blocks as a flat tensor. Shares the parameter's memory unless zero3
  // shards it. Non-contiguous parameters are one block.
  at::Tensor value;
  std::optional<ElementRange> range;  // none: another replica owns all
  bool is_part = false;               // `value` is flat

  // Returns the elements of a whole gradient that `value` has, sharing its memory.
  at::Tensor part_of(const at::Tensor& gradient) const {
    return is_part && gradient.defined() ? elements_of(gradient, *range) : gradient;
  }
};

OwnBlocks whole_of(const SharedParameter& parameter, const ParameterUse& use);

std::vector<OwnBlocks> own_blocks(const RankModel& rank);

// With sharded optimizer state, starts sending a stage's blocks to all replicas, except for
// parameters that zero3 shards. Collective over the replicas.
Work<void> share_blocks(const RankModel& rank, int stage);

}  // namespace sluice
