// Sizes in the fused CPU kernels, for memory predictions.
#pragma once

#include <cstdint>

namespace sluice::ops {

// Fused attention requires that head_dim is a multiple of this.
inline constexpr std::int64_t kFusedHeadMultiple = 16;
// Queries per block of attention, a multiple of all tile heights.
inline constexpr std::int64_t kQueryBlock = 48;
// Padding of each row of attention scores in floats, so that no two rows share a cache set.
inline constexpr std::int64_t kScoreSlack = 16;
// K, K^T, V^T, dK and dV, each [block of keys, head_dim], in the backward of attention.
inline constexpr std::int64_t kKeyMatrices = 5;
// Floats per row that a norm's backward needs.
inline constexpr std::int64_t kNormFloats = 2;
// Classes per block of a fused output layer and loss.
inline constexpr std::int64_t kLossBlock = 2048;

}  // namespace sluice::ops
