// The number of parameter elements that each replica owns when the replicas share the optimizer's
// work. src/optim/block_ranges.h computes the ranges themselves.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::detail {

// Returns the elements per owner, for parameters with the given numbers of elements. Parameters are
// divided in blocks of 16384 elements, so small ones stay whole.
std::vector<std::int64_t> block_shares(const std::vector<std::int64_t>& sizes, int num_owners);

}  // namespace sluice::detail
