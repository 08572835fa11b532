// Runs one rank's row of a proven program.
//
// Owns: the loop over instructions, mailboxes, the flight recorder of this rank.
// Does not own: autograd of a chunk (Stage), wires (Transport), reductions and the optimizer (StepOps).
// Thread-safety: one Executor per rank, used by that rank's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/layer.h"
#include "sluice/program.h"
#include "sluice/transport.h"

namespace sluice {

// What the last stage makes of its outputs: the sum over counted tokens and their number.
struct LossValue {
  at::Tensor loss;            // scalar with a graph: what backward starts from
  std::int64_t count = 1;     // counted tokens behind it
};
// outputs: values of the last chunk; batch: inputs of the microbatch ("labels", ...).
// Returns the *sum* of the token losses of the microbatch and the number of counted tokens.
using LossFunction = std::function<LossValue(const Values& outputs, const Values& batch)>;

// Scaling of gradients (RunConfig: parallelism.scale_grads).
enum class GradientScale {
  kTokens,        // of the sum of token losses / counted tokens of the whole step
  kMicrobatches,  // of the mean over microbatches of each microbatch's mean
  kNone,          // of the sum over microbatches of each microbatch's mean
  kDivisor,       // kNone / divisor
};

// One step's data: the same on every rank.
struct StepBatch {
  std::int64_t step = 0;                  // 1-based; key of random numbers
  std::vector<Values> microbatches;       // batch inputs of each
  std::vector<std::int64_t> counts;       // counted tokens of each
};

// Reductions and the update: declared here, implemented by train (or by a user).
class StepOps {
 public:
  virtual ~StepOps() = default;
  virtual void reduce_gradients(int stage) = 0;   // REDUCE_GRAD
  virtual void reduce_tied(int group) = 0;        // REDUCE_TIED
  virtual void reduce_norm() = 0;                 // REDUCE_NORM
  virtual void optimizer_step() = 0;              // OPTIMIZER_STEP
};

}  // namespace sluice
