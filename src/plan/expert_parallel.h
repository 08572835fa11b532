// Expert parallelism: which ranks hold which experts.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/model_spec.h"
#include "sluice/plan.h"

namespace sluice::detail {

// Returns the number of experts of a layer, or 0.
int num_experts(const LayerInfo& layer);
int experts_per_token(const LayerInfo& layer);
// Whether a parameter belongs to an expert.
bool is_of_expert(const LayerInfo& layer, const std::string& parameter);
// Whether only some replicas hold the parameter.
bool is_shared_expert(const LayerInfo& layer, const std::string& parameter,
                      const PipelineOptions& options);

// Throws Error(kUsage) for a degree that does not divide the experts and the replicas, or options
// that expert parallelism does not support.
void check_expert_parallel(const ModelSpec& model, const PipelineOptions& options);

// Returns the most elements of a parameter that a rank holds.
std::int64_t most_held(const LayerInfo& layer, const ParameterSpec& parameter,
                       const PipelineOptions& options);

// Mixed precision casts only the experts that a rank holds.
void divide_casted_experts(ModelSpec& model, const ExpertParallel& options);

}  // namespace sluice::detail
