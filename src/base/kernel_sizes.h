// Sizes that the kernels and the memory prediction share.
#pragma once

#include <cstdint>

namespace sluice::ops {

// The attention kernels require head_dim to be a multiple of this.
inline constexpr std::int64_t kFusedHeadMultiple = 16;
// Queries per block of attention, a multiple of every tile's rows.
inline constexpr std::int64_t kQueryBlock = 48;
// Padding between rows of scores, in floats, so that no two rows share a cache set.
inline constexpr std::int64_t kScoreSlack = 16;
// K, K^T, V^T, dK and dV: matrices [block of keys, head_dim] of the attention gradient.
inline constexpr std::int64_t kKeyMatrices = 5;
// Floats per row that the gradient of a norm needs.
inline constexpr std::int64_t kNormFloats = 2;
// Classes per block of a fused output layer and loss.
inline constexpr std::int64_t kLossBlock = 2048;

}  // namespace sluice::ops
