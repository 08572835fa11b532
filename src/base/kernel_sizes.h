// Sizes of our kernels that the prediction of memory knows, too.
// Thread-safety: constants.
#pragma once

#include <cstdint>

namespace sluice::ops {

// Channels of a head of which the kernels of attention take multiples.
inline constexpr std::int64_t kFusedHeadMultiple = 16;
// Queries of a block of attention: a multiple of every tile's rows.
inline constexpr std::int64_t kQueryBlock = 48;
// Floats between rows of scores: no two of them in the same cache set.
inline constexpr std::int64_t kScoreSlack = 16;
// Matrices of a head's width and a block of keys in the gradient of attention: K, K^T, V^T, dK, dV.
inline constexpr std::int64_t kKeyMatrices = 5;
// Numbers of each row that the gradient of a norm needs.
inline constexpr std::int64_t kNormFloats = 2;
// Entries of the vocabulary of which a head that computes the loss makes logits at once.
inline constexpr std::int64_t kLossBlock = 2048;

}  // namespace sluice::ops
