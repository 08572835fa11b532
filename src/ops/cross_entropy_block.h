#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

// Returns the sum of the softmax cross-entropies of the rows of logits, as a float32 scalar. CPU
// and float32 only. labels_R holds int64 classes in [0, V), which are not checked; rows with a
// negative label do not count. The backward overwrites the logits if it holds the only reference to
// their storage.
at::Tensor cross_entropy_block(const at::Tensor& logits_RV, const at::Tensor& labels_R);

}  // namespace sluice::ops
