// The bytes that the ranks of a pipeline hold, as far as shapes say it.
//
// Owns: parameters, gradients, optimizer state, their copy for a checkpoint, and the sum with
// activations. Does not own: what a stage keeps of a microbatch (activation_memory.h), what
// replicas share (replica_memory.h). Thread-safety: pure functions.
#pragma once

#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Bytes of the masks of these layers. Those that a batch brings are not among them.
double mask_bytes(const ModelSpec& model, const std::vector<int>& layers, std::int64_t length);

// Memory of one rank of a replica, whose row is this, under a split of the plan's model: by its
// microbatch, replicas and optimizer.
RankMemory rank_memory(const Plan& plan, const Partition& partition, int rank,
                       const std::vector<Action>& row);

// Per rank of a replica, by the plan's model, split, program, microbatch, replicas and optimizer.
std::vector<RankMemory> predict_memory(const Plan& plan);

}  // namespace sluice::detail
