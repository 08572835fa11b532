// The feed-forward half of a decoder block as one node:
// y = x + scale * norm(down(activation(gate(norm(x))) * up(norm(x)))), or without a gate.
//
// Owns: its forward, both halves of its backward, what it keeps between them.
// Does not own: modules (src/model).
// Norms and residual are computed once, whatever the slices (slices.h); sums over ranks, and rows
// of others, are exchanged in the forward and the gradient of x alone. Gated: Shazeer,
// arXiv:2002.05202. CPU, float32. Thread-safety: pure functions; a graph belongs to one rank's
// thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/kernels/kernels.h"
#include "ops/norm.h"
#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

struct FeedForwardBlock {
  NormWeights before;  // of x
  // Gated: gate and up, or one of both, gate first. Else one.
  std::vector<LinearWeights> projections;
  bool is_gated = true;
  Activation activation = Activation::kSilu;
  LinearWeights down;
  NormWeights behind;        // of the result
  float residual_scale = 1;  // of what is added to x; 1 where down has a bias
  bool adds_input = true;    // else y is what would be added

  // The weights are those that this rank's slices have of projections (their outputs), and of down
  // (its inputs, its bias whole).
  SliceGroup slices = {};
  std::int64_t width = 0;  // of the inner layer in all slices
};

// x_BLD, float32; with sequence parallelism the rows of this rank. Throws Error(kUsage) where ranks
// have different numbers of them.
at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block);

}  // namespace sluice::ops
