// What a rank holds because there are replicas: open sums of shards, and its share of what is
// sharded.
//
// Does not own: what a rank of one pipeline holds (memory.h). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/parts/action.h"
#include "sluice/parts/data_parallel.h"

namespace sluice::detail {

// Sums of all its gradients that a rank has open at most, of whichever replica: the running one,
// and with exact reductions those of the shards before it (shard_tree.h).
int open_sums(const DataParallel& options);

// Of numbers that are sharded by blocks of 16384: a replica's part, in whole blocks.
std::int64_t bytes_of_share(std::int64_t bytes, std::int64_t bytes_per_number, int degree);

// The most that is gathered at once along a row; stage_bytes: by stage, of its parameters.
std::int64_t gathered_bytes(const std::vector<Action>& row,
                            const std::vector<std::int64_t>& stage_bytes);

}  // namespace sluice::detail
