// The default backward of a stage, by torch's autograd. It keeps the outputs' graph edges, but not
// the output tensors.
#pragma once

#include <string>

#include "sluice/parts/chunk.h"

namespace sluice {

// Hooks the parameters immediately, so that gradients are added to `sums`. place: the stage, for
// error messages. A forward throws Error(kUsage) if a parameter was moved, converted or unfrozen
// after this call.
ChunkBackwardMaker graph_backward(const Chunk& chunk, const GradientSums& sums, std::string place);

}  // namespace sluice
