// Sizes in the fused CPU kernels that the memory prediction needs, too.
#pragma once

#include <cstdint>

namespace sluice::ops {

// Fused attention requires that head_dim is a multiple of this.
inline constexpr std::int64_t kFusedHeadMultiple = 16;
// Queries per block of fused attention, a multiple of all tile heights.
inline constexpr std::int64_t kQueryBlock = 48;
// Floats that pad each row of attention scores, so that no two rows share a cache set.
inline constexpr std::int64_t kScoreSlack = 16;
// The backward of fused attention has this many temporary matrices of [block of keys, head_dim]: K,
// K^T, V^T, dK and dV.
inline constexpr std::int64_t kKeyMatrices = 5;
// Floats per row that a norm saves for its backward.
inline constexpr std::int64_t kNormFloats = 2;
// Classes per block of a fused output layer and loss.
inline constexpr std::int64_t kLossBlock = 2048;

}  // namespace sluice::ops
