// Memory that the microbatches of a step need beside parameters, from shapes alone.
//
// Owns: the memory that the layers of a stage keep together, and the sum over a rank's row.
// Does not own: the memory that a layer keeps (LayerCost); parameters, gradients, optimizer
// (plan.h). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/predict/replica_memory.h"
#include "sluice/model_spec.h"
#include "sluice/partition.h"
#include "sluice/program.h"

namespace sluice {

// LayerCost's fields of bytes at one shape, of a layer or stage.
struct ActivationBytes {
  std::int64_t after_forward = 0, after_input = 0, on_entry = 0, at_end = 0;
  std::int64_t in_forward = 0;  // peak of a forward without a backward
  // To on_entry, for layers that run again: in I the weights of layers behind them wait, in W what
  // ran again is held already.
  std::int64_t more_in_input = 0, less_in_weight = 0;
  // Bytes of the pool: all layers of a stage together, and the largest of them.
  std::int64_t pooled_until_input = 0, pooled_until_weight = 0, pooled_after_input = 0;
  std::int64_t largest_after_input = 0, pooled_in_backward = 0, pooled_in_forward = 0;
  // LayerCost's, of all microbatches together.
  std::int64_t casted_weights = 0;
};

ActivationBytes layer_activations(const LayerInfo& layer, const MicrobatchShape& shape);
// The layers run one after another, the last one's backward first. A layer that runs again does so
// when the backwards behind it are done.
ActivationBytes stage_activations(const ModelSpec& model, const StageContent& stage,
                                  const MicrobatchShape& shape);

struct RowActivations {
  std::int64_t kept = 0;    // the most that all live microbatches keep, and copies of weights
  std::int64_t peak = 0;    // the most that is held at once; >= kept
  std::int64_t pooled = 0;  // pools of fused operators, held all the time beside the rest
  // More than the peak, with what replicas exchange; and what of that is parameters, at most.
  std::int64_t exchanged = 0, gathered = 0;
};
// stages: of the whole program, by index; those of other ranks are not looked at. replicas: the
// same, or none.
RowActivations row_activations(const std::vector<Action>& row,
                               const std::vector<ActivationBytes>& stages,
                               const std::vector<detail::ReplicaBytes>& replicas = {});

}  // namespace sluice
