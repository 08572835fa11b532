#pragma once

#include <vector>

#include "sluice/plan.h"

namespace sluice::detail {

// Excludes attention masks that a batch contains.
double mask_bytes(const ModelSpec& model, const std::vector<int>& layers, std::int64_t length);

RankMemory rank_memory(const Plan& plan, const Partition& partition, int rank,
                       const std::vector<Action>& row);

std::vector<RankMemory> predict_memory(const Plan& plan);

}  // namespace sluice::detail
