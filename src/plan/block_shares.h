// Predicts how src/optim/block_ranges.h divides parameters among replicas.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::detail {

// Returns elements per owner. Parameters are divided in blocks of 16384 elements.
std::vector<std::int64_t> block_shares(const std::vector<std::int64_t>& sizes, int num_owners);

}  // namespace sluice::detail
