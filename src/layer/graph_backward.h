// A stage's default backward. It keeps the outputs' graph edges, but not the output tensors.
#pragma once

#include <string>

#include "sluice/parts/chunk.h"

namespace sluice {

// Immediately hooks the parameters, so that gradients are added to `sums`. place: the stage, for
// errors. Forwards throw Error(kUsage) if a parameter was moved, converted or unfrozen later.
ChunkBackwardMaker graph_backward(const Chunk& chunk, const GradientSums& sums, std::string place);

}  // namespace sluice
