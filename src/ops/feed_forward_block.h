// The feed-forward half of a decoder block as one node:
// y = x + scale * norm(down(activation(gate(norm(x))) * up(norm(x)))), or without a gate.
//
// Owns: the activation, forwards and backwards, what it keeps between them.
// Does not own: norms, products, residual, exchanges (half_block.h), modules (src/model).
// Gated: Shazeer, arXiv:2002.05202. CPU, float32. Thread-safety: pure functions; a graph belongs to
// one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/half_block.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {

struct FeedForwardBlock {
  // Projections: gated, gate and up, or one of both, gate first; else one.
  HalfBlock half;
  bool is_gated = true;
  Activation activation = Activation::kSilu;
  std::int64_t width = 0;  // of the inner layer in all slices; read where there are several
};

// x_BLD, float32; with sequence parallelism the rows of this rank. Throws Error(kUsage) where ranks
// have different numbers of them.
at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block);

}  // namespace sluice::ops
