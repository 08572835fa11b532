// Computes the feed-forward half of a decoder block as one autograd node:
//   y = x + scale * norm(down(activation(gate(norm(x))) * up(norm(x))))
// or the same without a gate. Gated layers follow Shazeer, arXiv:2002.05202. CPU and float32 only.
// One rank's thread must run both forward and backward of a graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/half_block.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {

struct FeedForwardBlock {
  // A gated layer has two projections, gate and up, or one that produces first gate, then up. A
  // layer without a gate has one.
  HalfBlock half;
  bool is_gated = true;
  Activation activation = Activation::kSilu;
  // Size of the inner layer over all slices. Only read if there are several slices.
  std::int64_t width = 0;
};

// x_BLD is float32. With sequence parallelism it holds this rank's rows only; throws Error(kUsage)
// if ranks hold different numbers of rows.
at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block);

}  // namespace sluice::ops
