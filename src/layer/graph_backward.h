// The backward of any chunk, by autograd's graph: the default of a stage.
//
// Owns: the edges of the outputs of its microbatch, never an output. Does not own: the walk that
// splits the graph (split_backward.h), the sums.
// Thread-safety: one rank's thread.
#pragma once

#include <string>

#include "sluice/parts/chunk.h"

namespace sluice {

// Hooks the parameters of the chunk to their sums, at once. place: of the stage, for messages.
// Forwards throw Error(kUsage) for a parameter that was moved, converted or unfrozen after that.
ChunkBackwardMaker graph_backward(const Chunk& chunk, const GradientSums& sums, std::string place);

}  // namespace sluice
