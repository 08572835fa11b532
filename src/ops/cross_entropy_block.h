#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

// Returns the summed softmax cross-entropy of rows of float32 CPU logits. Labels are int64 in [0,
// V), unchecked; negative labels do not count. The backward overwrites the logits unless their
// storage is shared.
at::Tensor cross_entropy_block(const at::Tensor& logits_RV, const at::Tensor& labels_R);

}  // namespace sluice::ops
