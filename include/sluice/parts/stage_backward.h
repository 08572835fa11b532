// What the backward of a stage has to compute, by what is trained.
//
// Does not own: what is trained (model_spec.h); taking the rest out of a program (program.h).
// Thread-safety: values.
#pragma once

#include <cstdint>

namespace sluice {

enum class StageBackward : std::uint8_t {
  kFull,     // gradients of its input and of its weights
  kInput,    // nothing of its own is trained: it only passes gradients on
  kWeights,  // nothing below it is trained: nobody waits for the gradient of its input
  kNone,     // it has no backward, and nothing is sent back to it
};

constexpr bool passes_gradients_on(StageBackward backward) {
  return backward == StageBackward::kFull || backward == StageBackward::kInput;
}
constexpr bool has_weight_gradients(StageBackward backward) {
  return backward == StageBackward::kFull || backward == StageBackward::kWeights;
}

}  // namespace sluice
