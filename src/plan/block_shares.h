// Counts of the numbers of parameters that each replica gets where they are divided among them.
//
// Does not own: the ranges of these numbers (src/optim/block_ranges.h; this is their count).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::detail {

// By owner, of parameters of these sizes. Parameters go in blocks of 16384 numbers, so that small
// ones are not divided.
std::vector<std::int64_t> block_shares(const std::vector<std::int64_t>& sizes, int num_owners);

}  // namespace sluice::detail
