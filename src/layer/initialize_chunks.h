// Initial values by a user's function, of the chunks of one rank together.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/parts/initialization.h"

namespace sluice {

// initialize_by() of each, where tied parameters share storage across chunks.
void initialize_chunks(const Initialization& user, const std::vector<Chunk*>& chunks,
                       std::uint64_t seed);

}  // namespace sluice
