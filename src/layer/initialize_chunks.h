// Initial values and tied storage of the chunks of one rank.
// Thread-safety: that of the chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/chunk.h"

namespace sluice {

// Makes later uses of a tied parameter share the storage of the first use among these chunks (all
// of one rank), and buffers of one name that of the first in a chunk. Values of later uses are
// lost: call it before weights are loaded or drawn. Throws Error(kUsage) when shapes or dtypes
// differ, and when two chunks were given one module.
void share_tied_storage(const std::vector<Chunk*>& chunks);

// True if initialize_parameters() overwrites all numbers of the parameter, whatever they were. A
// LayerSpec::initialize may leave numbers alone.
bool is_drawn_by_default(const Chunk& chunk, const ParameterInfo& parameter);

// Draws every parameter of the chunk (LayerSpec::initialize): a function of (seed, full name,
// element) alone, so the same for every partition. Tied uses get the value of the first use.
void initialize_parameters(Chunk& chunk, std::uint64_t seed);

// Draws every parameter and buffer of the chunk. Precondition: is_given(). Throws Error(kUsage) if
// both are given, and for `module` where a rank holds a slice of a parameter.
void initialize_by(const Initialization& user, Chunk& chunk, std::uint64_t seed);

// initialize_by() of each, where tied parameters share storage across chunks.
void initialize_chunks(const Initialization& user, const std::vector<Chunk*>& chunks,
                       std::uint64_t seed);

}  // namespace sluice
