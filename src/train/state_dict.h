#pragma once

#include "sluice/parts/saver.h"
#include "train/pipeline_rank.h"

namespace sluice {

// Collective. Returns parameters and buffers on rank 0 only, copied to the CPU. A tied parameter
// appears under all names.
NamedTensors gather_state_dict(const PipelineRank& own_rank);

}  // namespace sluice
