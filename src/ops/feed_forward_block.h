// The feed-forward half of a decoder block as one autograd node, with a gate (Shazeer,
// arXiv:2002.05202) or without:
//   y = x + scale * norm(down(activation(gate(norm(x))) * up(norm(x))))
// CPU and float32 only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/half_block.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {

struct FeedForwardBlock {
  // Has two projections gate and up, or one that yields first gate, then up. Without a gate, one
  // projection.
  HalfBlock half;
  bool is_gated = true;
  Activation activation = Activation::kSilu;
  // Inner size on all ranks. Ignored if there is one slice.
  std::int64_t width = 0;
};

// With sequence parallelism, x holds this rank's rows. Throws Error(kUsage) if ranks have different
// numbers of rows.
at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block);

}  // namespace sluice::ops
