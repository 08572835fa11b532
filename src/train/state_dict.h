// The whole model's parameters and buffers on one rank. Thread-safety: one rank's thread.
#pragma once

#include "sluice/parts/saver.h"
#include "train/pipeline_rank.h"

namespace sluice {

// Collective over all ranks. On rank 0 copies on the CPU, a tied parameter under all its names;
// nothing on others.
NamedTensors gather_state_dict(const PipelineRank& own_rank);

}  // namespace sluice
