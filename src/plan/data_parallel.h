#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// True if replicas' gradients are summed in the fixed order of shard_tree.h. False if the
// communication backend chooses the order, or if each microbatch's gradients are reduced
// separately.
bool sums_in_shards(const DataParallel& options);

// Throws Error(kUsage) if the options contradict each other, the number of microbatches, or a
// user-supplied schedule's collectives. Returns notes about options without effect.
std::vector<std::string> check_data_parallel(const DataParallel& options, const Schedule& schedule,
                                             bool is_own_schedule);

void require_replicas(const DataParallel& options, int num_microbatches);

// Replicas lie along mesh axis dp_shard if parameters are sharded, otherwise along dp_replicate.
// Throws Error(kUsage) for too many ranks, or unless `rank_order` names each of pp and dp, or of
// pp, dp, cp and tp, once.
Mesh mesh_of(int num_ranks, const DataParallel& options, const std::string& rank_order,
             const TensorParallel& shares = {}, const ExpertParallel& experts = {});

std::int64_t ranks_of_run(const PipelineOptions& options);

// Returns the multiples of `step` nearest to `value`, as "4 or 6" or "6".
std::string nearest_multiples(std::int64_t value, std::int64_t step);

void set_lowering(const DataParallel& options, LowerOptions& lowering);

}  // namespace sluice::detail
