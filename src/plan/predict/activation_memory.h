// Predicts the activation memory of a rank from shapes alone. Parameters, gradients and optimizer
// state are counted in memory.h.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/predict/replica_memory.h"
#include "sluice/model_spec.h"
#include "sluice/partition.h"
#include "sluice/program.h"

namespace sluice {

// The byte fields of LayerCost at one shape, for a layer or a stage.
struct ActivationBytes {
  std::int64_t after_forward = 0, after_input = 0, on_entry = 0, at_end = 0;
  std::int64_t in_forward = 0;
  // Corrections to on_entry for recomputed layers. During I, weight gradients of later layers still
  // wait. During W, the recomputed values are already counted as held.
  std::int64_t more_in_input = 0, less_in_weight = 0;
  // Pool of fused operators: the sum over a stage's layers, and the largest layer.
  std::int64_t pooled_until_input = 0, pooled_until_weight = 0, pooled_after_input = 0;
  std::int64_t largest_after_input = 0, pooled_in_backward = 0, pooled_in_forward = 0;
  // Copies of weights in the compute dtype, shared by all microbatches.
  std::int64_t casted_weights = 0;
};

ActivationBytes layer_activations(const LayerInfo& layer, const MicrobatchShape& shape);
// The backward runs from the last layer to the first. A recomputed layer runs again just before its
// own backward.
ActivationBytes stage_activations(const ModelSpec& model, const StageContent& stage,
                                  const MicrobatchShape& shape);

struct RowActivations {
  std::int64_t kept = 0;    // peak of what live microbatches keep, with casted weights
  std::int64_t peak = 0;    // peak of all that is held at once; >= kept
  std::int64_t pooled = 0;  // pools of fused operators; never freed
  // Increase of the peak by exchanges between replicas, and the most parameters that UNSHARD
  // gathers.
  std::int64_t exchanged = 0, gathered = 0;
};
// `stages` and `replicas` are indexed by stage; entries of other ranks are ignored. `replicas` may
// be empty.
RowActivations row_activations(const std::vector<Action>& row,
                               const std::vector<ActivationBytes>& stages,
                               const std::vector<detail::ReplicaBytes>& replicas = {});

}  // namespace sluice
