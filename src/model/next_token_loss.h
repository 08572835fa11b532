// The sum of the cross-entropies of a microbatch's next tokens, of logits or of what enters the
// head. Legend of shapes: modules.h.
// Labels are int64 [B, L]: token t predicts label t + 1. Both throw Error(kUsage) where these are
// of another shape, Error(kInput) for a label outside of the vocabulary.
// Thread-safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/linear_cross_entropy_block.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// fused: the gradient takes the place of the logits, where it can.
at::Tensor next_token_sum(const at::Tensor& logits_BLV, const at::Tensor& labels_BL, bool fused);
// By blocks of the vocabulary. Precondition: takes_fused(x).
at::Tensor next_token_sum(const at::Tensor& x_BLD, const ops::LinearCrossEntropy& head,
                          const at::Tensor& labels_BL);

// The loss of the logits of each own slice of the vocabulary: the same sum on every rank.
at::Tensor next_token_sum(const std::vector<at::Tensor>& logits, const at::Tensor& labels_BL,
                          std::int64_t vocab_size, const SliceGroup& tp);

}  // namespace sluice::detail
