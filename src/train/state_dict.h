// Gathers the whole model's parameters and buffers on one rank.
#pragma once

#include "sluice/parts/saver.h"
#include "train/pipeline_rank.h"

namespace sluice {

// Collective over all ranks. Returns copies on the CPU on rank 0 and nothing on other ranks. A tied
// parameter appears under each of its names.
NamedTensors gather_state_dict(const PipelineRank& own_rank);

}  // namespace sluice
