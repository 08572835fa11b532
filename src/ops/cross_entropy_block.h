// The sum of the softmax cross-entropies of rows of logits, whose gradient takes their place.
// CPU, float32. Thread-safety: pure functions; a graph belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

// logits_RV; labels_R: int64 in [0, V), or negative: does not count. Returns a float32 scalar. The
// backward writes over the logits where nobody else holds them. Precondition: the labels are in
// range.
at::Tensor cross_entropy_block(const at::Tensor& logits_RV, const at::Tensor& labels_R);

}  // namespace sluice::ops
