// The attention half of a decoder block as one autograd node:
//   y = x + scale * norm(out(attention(norm(x))))
//
// Results equal those of the operators in src/model, up to rounding. Attention follows
// arXiv:1706.03762, grouped keys arXiv:2305.13245, and rotary positions arXiv:2104.09864. CPU and
// float32 only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/half_block.h"

namespace sluice::ops {

struct AttentionBlock {
  // Has three projections q, k and v, or one whose columns are all queries, all keys, then all
  // values. With interleaved heads (GPT-NeoX), q, k and v of each head are adjacent.
  HalfBlock half;
  bool interleaved_heads = false;
  // RMS norms before the rotary embedding, as wide as one head or all heads.
  NormWeights query_norm, key_norm;

  std::int64_t num_heads = 1, num_key_value_heads = 1;  // on all ranks
  std::int64_t head_dim = 16;                           // a multiple of 16
  float score_scale = 1;
  float score_cap = 0;  // logit soft-capping (arXiv:2408.00118); 0: none
};

// Positions in a sequence of length L, even if each rank holds only some of its rows.
struct AttentionPositions {
  // Rotary embedding: float32 [L, R] or [B, 1, L, R]. Undefined: none.
  at::Tensor cosines = {}, sines = {};
  // First visible key per query: int32 [L] or [B, L]. Undefined: 0.
  at::Tensor first_keys = {};
};

// With sequence parallelism, x holds this rank's rows. Throws Error(kUsage) if ranks have different
// numbers of rows.
at::Tensor attention_block(const at::Tensor& x_BLD, const AttentionBlock& block,
                           const AttentionPositions& positions);

}  // namespace sluice::ops
