// The parameters that a rank updates. They are whole or, with zero1 and zero3, the blocks (element
// ranges) that its replica owns.
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
  const ParameterUse* use;
  // The parameter, or its owned blocks as a flat tensor. Shares the parameter's memory unless zero3
  // shards it. A non-contiguous parameter is one block.
  at::Tensor value;
  std::optional<ElementRange> range;  // none if this replica owns no element
  bool is_part = false;

  // Returns the elements of a whole gradient that correspond to `value`, as a view.
  at::Tensor part_of(const at::Tensor& gradient) const {
    return is_part && gradient.defined() ? elements_of(gradient, *range) : gradient;
  }
};

OwnBlocks whole_of(const SharedParameter& parameter, const ParameterUse& use);

std::vector<OwnBlocks> own_blocks(const RankModel& rank);

// With sharded optimizer state, starts sending a stage's updated blocks to all replicas, except for
// parameters that zero3 shards. Collective over the replicas.
Work<void> share_blocks(const RankModel& rank, int stage);

}  // namespace sluice
