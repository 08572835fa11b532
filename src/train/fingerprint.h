// Hashes batches, so that ranks notice if theirs differ.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/values.h"

namespace sluice {

// kAll reads all elements. kSome reads a few elements of the first and last microbatch.
enum class Compared : std::uint8_t { kAll, kSome };

// Returns a hash for every input of each compared microbatch. Tensors without data, and tensors on
// a device, whose reading would block, have hash 0.
std::vector<std::int64_t> fingerprint(const StepBatch& batch, Compared compared);

// A hash of 0 matches every hash.
bool fingerprints_match(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

}  // namespace sluice
