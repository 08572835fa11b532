// The bytes that the ranks of a pipeline hold, as far as shapes say it.
//
// Owns: parameters, gradients, optimizer state, their copy for a checkpoint, and the sum with
// activations. Does not own: what a
// stage keeps of a microbatch (activation_memory.h). Thread-safety: pure functions.
#pragma once

#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Per rank; program: of this partition.
std::vector<RankMemory> predict_memory(const ModelSpec& model, const Partition& partition,
                                       const Program& program, const MicrobatchShape& microbatch,
                                       OptimizerKind optimizer, bool keeps_snapshot);

}  // namespace sluice::detail
