// Sums the next tokens' cross-entropies. Labels are int64 [B, L], and token t predicts label t + 1.
// Throws Error(kUsage) for wrong shapes, and Error(kInput) for an unknown label.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/linear_cross_entropy_block.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::detail {

// If `fused`, the gradient overwrites the logits where possible.
at::Tensor next_token_sum(const at::Tensor& logits_BLV, const at::Tensor& labels_BL, bool fused);
// Computes the logits from the head's inputs, in blocks of the vocabulary. Requires
// supports_fused(x).
at::Tensor next_token_sum(const at::Tensor& x_BLD, const ops::LinearCrossEntropy& head,
                          const at::Tensor& labels_BL);

// `logits` are this rank's slices of the vocabulary. Returns the same sum on every rank.
at::Tensor next_token_sum(const std::vector<at::Tensor>& logits, const at::Tensor& labels_BL,
                          std::int64_t vocab_size, const SliceGroup& tp);

}  // namespace sluice::detail
