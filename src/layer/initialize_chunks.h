#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/chunk.h"

namespace sluice {

// Makes all uses of a tied parameter share the storage of the first use on this rank, and a chunk's
// buffers with one name too. Later uses lose their values, so call this before setting weights.
// Throws Error(kUsage) for different shapes or dtypes, or if two chunks have the same module.
void share_tied_storage(const std::vector<Chunk*>& chunks);

// True if initialize_parameters() certainly overwrites all elements of the parameter.
bool is_drawn_by_default(const Chunk& chunk, const ParameterInfo& parameter);

// Draws every parameter (LayerSpec::initialize) as a function of (seed, full name, element), so
// values do not depend on the partition into stages. Tied uses get the first use's value.
void initialize_parameters(Chunk& chunk, std::uint64_t seed);

// Draws every parameter and buffer with the user's function. Requires user.is_given(). Throws
// Error(kUsage) if both functions are given, or if `module` would see only parts of a module.
void initialize_by(const Initialization& user, Chunk& chunk, std::uint64_t seed);

void initialize_chunks(const Initialization& user, const std::vector<Chunk*>& chunks,
                       std::uint64_t seed);

}  // namespace sluice
