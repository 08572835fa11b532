// The attention half of a decoder block as one node: y = x + scale * norm(out(attention(norm(x)))).
//
// Owns: attention with its rotary positions and norms of heads, forwards and backwards, what it
// keeps between them.
// Does not own: norms, products, residual, exchanges (half_block.h), modules (src/model), who sees
// whom (AttentionInputs in src/model).
//
// Invariants:
//  1. Results are those of the operators in src/model, up to rounding: attention after Vaswani et
//     al., arXiv:1706.03762, with grouped keys (arXiv:2305.13245) and rotary positions
//     (arXiv:2104.09864).
//  2. A sequence's bits do not depend on the others of the microbatch.
// CPU, float32. Thread-safety: pure functions; a graph belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/half_block.h"

namespace sluice::ops {

struct AttentionBlock {
  // Projections: q, k, v, or one of all three: columns of all query heads, of all key heads, of all
  // value heads; or, where heads are interleaved, of q, k and v of each head (GPT-NeoX).
  HalfBlock half;
  bool interleaved_heads = false;
  // Norms of queries and keys before they are turned, kRms: as wide as a head, or as all heads.
  NormWeights query_norm, key_norm;

  std::int64_t num_heads = 1, num_key_value_heads = 1;  // of all slices
  std::int64_t head_dim = 16;                           // a multiple of 16
  float score_scale = 1;
  float score_cap = 0;  // arXiv:2408.00118; 0: none
};

// Positions of a microbatch [B, L], all of them where a rank has a part of the rows of x.
struct AttentionPositions {
  // Angles, float32 [L, R] or [B, 1, L, R]; undefined: nothing is turned.
  at::Tensor cosines = {}, sines = {};
  // int32 [L] or [B, L]: the first key that each query sees; undefined: 0.
  at::Tensor first_keys = {};
};

// x_BLD, float32; with sequence parallelism the rows of this rank. Throws Error(kUsage) where ranks
// have different numbers of them.
at::Tensor attention_block(const at::Tensor& x_BLD, const AttentionBlock& block,
                           const AttentionPositions& positions);

}  // namespace sluice::ops
