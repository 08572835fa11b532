// Predicts a rank's activation memory from shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/predict/replica_memory.h"
#include "sluice/model_spec.h"
#include "sluice/partition.h"
#include "sluice/program.h"

namespace sluice {

struct ActivationBytes {
  std::int64_t after_forward = 0, after_input = 0, on_entry = 0, at_end = 0;
  std::int64_t in_forward = 0;
  // Corrections of on_entry for recomputed layers. During I, later layers hold memory for their
  // weight gradients. During W, recomputed values are already counted.
  std::int64_t more_in_input = 0, less_in_weight = 0;
  // Memory pools of fused operators: sums over a stage's layers, or the largest layer.
  std::int64_t pooled_until_input = 0, pooled_until_weight = 0, pooled_after_input = 0;
  std::int64_t largest_after_input = 0, pooled_in_backward = 0, pooled_in_forward = 0;
  // Copies of weights in low precision, shared by all microbatches.
  std::int64_t casted_weights = 0;
};

ActivationBytes layer_activations(const LayerInfo& layer, const MicrobatchShape& shape);
// Assumes that recomputed layers run again just before their backward.
ActivationBytes stage_activations(const ModelSpec& model, const StageContent& stage,
                                  const MicrobatchShape& shape);

struct RowActivations {
  std::int64_t kept = 0;    // peak of what microbatches in flight keep, and low-precision weights
  std::int64_t peak = 0;    // peak of all activations; >= kept
  std::int64_t pooled = 0;  // memory pools of fused operators, not in `peak`
  // With data parallelism, how much exchanges between replicas raise the peak, and the most that
  // UNSHARD gathers.
  std::int64_t exchanged = 0, gathered = 0;
};
// `stages` and `replicas` are indexed by stage and may contain other ranks' stages. `replicas` may
// be empty.
RowActivations row_activations(const std::vector<Action>& row,
                               const std::vector<ActivationBytes>& stages,
                               const std::vector<detail::ReplicaBytes>& replicas = {});

}  // namespace sluice
