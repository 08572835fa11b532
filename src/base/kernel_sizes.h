// Sizes shared with the memory prediction.
#pragma once

#include <cstdint>

namespace sluice::ops {

// head_dim must be a multiple of this.
inline constexpr std::int64_t kFusedHeadMultiple = 16;
// Queries per block of attention, a multiple of all tile heights.
inline constexpr std::int64_t kQueryBlock = 48;
// Padding of each row of scores in floats, so that no two rows share a cache set.
inline constexpr std::int64_t kScoreSlack = 16;
// K, K^T, V^T, dK and dV, each [block of keys, head_dim], in the gradient of attention.
inline constexpr std::int64_t kKeyMatrices = 5;
// Floats per row kept for the gradient of a norm.
inline constexpr std::int64_t kNormFloats = 2;
// Classes per block of a fused output layer and loss.
inline constexpr std::int64_t kLossBlock = 2048;

}  // namespace sluice::ops
