// Checks the data-parallel options of a plan and builds the mesh of all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// True if gradients are summed shard by shard, in the fixed order of shard_tree.h. False if the
// backend sums in its own order, or if every microbatch is reduced separately.
bool sums_in_shards(const DataParallel& options);

// Throws Error(kUsage), with the option as its place, for
//
//   - a number of replicas that is below 1 or too large,
//   - shards that cannot be filled evenly by the replicas or the microbatches,
//   - sharded parameters (ZeRO-3) together with a reduction per microbatch,
//   - collectives in the caller's own schedule that contradict the options.
//
// Returns notes about options that have no effect because of another option.
std::vector<std::string> check_data_parallel(const DataParallel& options, const Schedule& schedule,
                                             bool is_own_schedule);

// Does the part of check_data_parallel() that needs no schedule.
void require_replicas(const DataParallel& options, int num_microbatches);

// Builds a mesh of num_ranks x replicas x tensor-parallel shares. Replicas lie along dp_shard if
// parameters are sharded, otherwise along dp_replicate.
//
// Throws Error(kUsage) if there are too many ranks. Also throws if `rank_order` is not a
// permutation of either pp and dp or of pp, dp, cp and tp.
Mesh mesh_of(int num_ranks, const DataParallel& options, const std::string& rank_order,
             const TensorParallel& shares = {});

// All ranks of a run: pipeline ranks x replicas x tensor-parallel degree.
std::int64_t ranks_of_run(const PipelineOptions& options);

// The multiples of `step` next to `value`, without 0, as "4 or 6" or "6".
std::string nearest_multiples(std::int64_t value, std::int64_t step);

// Sets which of REDUCE_GRAD, UNSHARD and RESHARD the program needs.
void set_lowering(const DataParallel& options, LowerOptions& lowering);

}  // namespace sluice::detail
