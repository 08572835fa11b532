// Replicas of a pipeline in its plan: whether the options hold together, and the mesh of all ranks.
//
// Does not own: the order in which shards add up (shard_tree.h), what replicas hold
// (predict/memory.h). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// True if the shards of gradients decide the bits: not when a backend adds up, nor when every
// microbatch is reduced by itself.
bool sums_in_shards(const DataParallel& options);

// Throws Error(kUsage), the option as its place: fewer than one replica or too many, shards that
// the replicas or the microbatches do not fill evenly, parameters sharded where gradients are
// reduced a microbatch at a time; for a schedule of the caller's, collectives in it that are not
// those that the options ask for. Returns notes of options that another one leaves without meaning.
std::vector<std::string> check_data_parallel(const DataParallel& options, const Schedule& schedule,
                                             bool is_own_schedule);

// The part of check_data_parallel() that is the same for every schedule.
void require_replicas(const DataParallel& options, int num_microbatches);

// num_ranks x replicas x shares ranks: replicas along dp_shard where parameters are sharded, else
// along dp_replicate. Throws Error(kUsage) for an order that does not name pp and dp once, or pp,
// dp, cp and tp, and for too many ranks.
Mesh mesh_of(int num_ranks, const DataParallel& options, const std::string& rank_order,
             const TensorParallel& shares = {});

// Ranks of a run: of the pipeline, times its replicas, times the shares of its layers.
std::int64_t ranks_of_run(const PipelineOptions& options);

// The multiples of `step` around `value`, at least one of them above 0: "4 or 6", "6".
std::string nearest_multiples(std::int64_t value, std::int64_t step);

// REDUCE_GRAD, UNSHARD and RESHARD, as the options need them.
void set_lowering(const DataParallel& options, LowerOptions& lowering);

}  // namespace sluice::detail
