// Computes the attention half of a decoder block as one autograd node: y = x + scale *
// norm(out(attention(norm(x)))).
//
// Results equal those of the operators in src/model, up to rounding. Attention follows Vaswani et
// al., arXiv:1706.03762, with grouped keys (arXiv:2305.13245) and rotary positions
// (arXiv:2104.09864). The bits of a sequence do not depend on the other sequences of the
// microbatch.
//
// CPU and float32 only. One rank's thread must run both forward and backward of a graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/half_block.h"

namespace sluice::ops {

struct AttentionBlock {
  // Either three projections for q, k and v, or one that produces all three. A single projection
  // orders its columns as all query heads, all key heads, all value heads. With interleaved heads
  // (GPT-NeoX), each head's q, k and v lie side by side.
  HalfBlock half;
  bool interleaved_heads = false;
  // RMS norms of queries and keys, applied before the rotary embedding. They are as wide as one
  // head or as all heads.
  NormWeights query_norm, key_norm;

  std::int64_t num_heads = 1, num_key_value_heads = 1;  // over all slices
  std::int64_t head_dim = 16;                           // must be a multiple of 16
  float score_scale = 1;
  float score_cap = 0;  // arXiv:2408.00118; 0 disables it
};

// Positions of a microbatch [B, L]. L is the whole sequence, even if this rank holds only part of
// it.
struct AttentionPositions {
  // Float32 [L, R] or [B, 1, L, R]. Undefined if there are no rotary positions.
  at::Tensor cosines = {}, sines = {};
  // Int32 [L] or [B, L]: the first key that each query attends to. Undefined means 0.
  at::Tensor first_keys = {};
};

// x_BLD is float32. With sequence parallelism it holds this rank's rows only; throws Error(kUsage)
// if ranks hold different numbers of rows.
at::Tensor attention_block(const at::Tensor& x_BLD, const AttentionBlock& block,
                           const AttentionPositions& positions);

}  // namespace sluice::ops
