#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

// Returns the sum of the softmax cross-entropies of rows of logits. CPU and float32 only. Labels
// are int64 below V, unchecked. Rows with a negative label do not count. The backward overwrites
// the logits unless other tensors share their storage.
at::Tensor cross_entropy_block(const at::Tensor& logits_RV, const at::Tensor& labels_R);

}  // namespace sluice::ops
