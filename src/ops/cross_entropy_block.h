#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

// Returns the sum of the softmax cross-entropies of rows of logits. CPU and float32 only. Labels
// must be int64 below V, which is not checked; rows with a negative label do not count. The
// backward overwrites the logits unless their storage is shared.
at::Tensor cross_entropy_block(const at::Tensor& logits_RV, const at::Tensor& labels_R);

}  // namespace sluice::ops
