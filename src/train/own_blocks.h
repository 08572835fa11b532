// The parameters that a rank updates. Each is whole or, with sharded optimizer state (zero1,
// zero3), consists of the blocks that this replica owns. share_blocks() sends updated blocks to the
// other replicas.
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
  const ParameterUse* use;  // first use on this rank
  // The whole parameter, or the owned blocks as one flat tensor. It shares the parameter's memory,
  // except with zero3. A parameter that is not contiguous is a single block.
  at::Tensor value;
  std::optional<ElementRange> range;  // owned elements; none: another replica owns all
  bool is_part = false;               // `value` is flat

  // Returns the same elements of a gradient of the whole parameter, sharing its memory.
  at::Tensor part_of(const at::Tensor& gradient) const {
    return is_part && gradient.defined() ? elements_of(gradient, *range) : gradient;
  }
};

OwnBlocks whole_of(const SharedParameter& parameter, const ParameterUse& use);

// Returns the blocks of every parameter that this rank uses and trains, in layer order.
std::vector<OwnBlocks> own_blocks(const RankModel& rank);

// With sharded state, starts sending the blocks of a stage to the other replicas. Every replica has
// whole parameters when the work is done. Does nothing for parameters that zero3 shards. Collective
// over the replicas.
Work<void> share_blocks(const RankModel& rank, int stage);

}  // namespace sluice
