// Hashes by which ranks notice that they were given different batches.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/values.h"

namespace sluice {

// Compares all elements, which costs a pass over them, or some elements of the first and last
// microbatch.
enum class Compared : std::uint8_t { kAll, kSome };

// Returns a hash for every input of each compared microbatch. The hash is 0 for a tensor without
// data or on a device, where reading would block.
std::vector<std::int64_t> fingerprint(const StepBatch& batch, Compared compared);

// A hash of 0 matches every hash.
bool fingerprints_match(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

}  // namespace sluice
