// The default backward of a stage. It keeps graph edges of the outputs, but not the outputs.
#pragma once

#include <string>

#include "sluice/parts/chunk.h"

namespace sluice {

// Immediately hooks the parameters to their sums. place: the stage, for messages. Forwards throw
// Error(kUsage) if a parameter was moved, converted or unfrozen later.
ChunkBackwardMaker graph_backward(const Chunk& chunk, const GradientSums& sums, std::string place);

}  // namespace sluice
