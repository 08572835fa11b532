#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/values.h"

namespace sluice {

// kAll hashes all elements. kSome hashes a few elements of the first and last microbatch.
enum class Compared : std::uint8_t { kAll, kSome };

// Returns one hash per input and hashed microbatch. It is 0 for tensors without data or on a GPU,
// because reading a GPU would block.
std::vector<std::int64_t> fingerprint(const StepBatch& batch, Compared compared);

// Whether all hashes are equal. A hash of 0 matches every hash.
bool fingerprints_match(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

}  // namespace sluice
