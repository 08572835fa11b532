// What the microbatches of a step need beside parameters, from shapes alone.
//
// Owns: bytes that autograd keeps for a decoder layer, a norm, a head, an embedding of the families
// that sluice builds, in float32, with LibTorch's operators on the CPU; their sum over a rank's
// row. Does not own: parameters, gradients, optimizer (plan.h). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/partition.h"
#include "sluice/program.h"

namespace sluice {

struct MicrobatchShape {
  std::int64_t rows = 0, length = 0;
  std::int64_t tokens() const { return rows * length; }
};

// Bytes of one microbatch in one layer or stage.
struct ActivationBytes {
  std::int64_t after_forward = 0;  // kept from F to B or I
  std::int64_t after_input = 0;    // kept from I to W
  std::int64_t on_entry = 0;       // more than is kept, when a backward begins
  std::int64_t at_end = 0;         // more than is left, when a backward ends
};

ActivationBytes layer_activations(const ModelSpec& model, const LayerInfo& layer,
                                  const MicrobatchShape& shape);
// The layers run one after another, the last one's backward first.
ActivationBytes stage_activations(const ModelSpec& model, const StageContent& stage,
                                  const MicrobatchShape& shape);

struct RowActivations {
  std::int64_t kept = 0;  // the most that all live microbatches keep
  std::int64_t peak = 0;  // the most that is held at once; >= kept
};
// stages: of the whole program, by index; those of other ranks are not looked at.
RowActivations row_activations(const std::vector<Action>& row,
                               const std::vector<ActivationBytes>& stages);

}  // namespace sluice
