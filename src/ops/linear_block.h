// A linear layer, and a norm, each as one node whose weight gradients are added where they add up.
// CPU, float32. Thread-safety: pure functions; a graph belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/norm.h"
#include "ops/products.h"

namespace sluice::ops {

// [.., in] -> [.., out].
at::Tensor linear_block(const at::Tensor& x, const LinearWeights& weights);
// [.., width] of the norm's weight.
at::Tensor norm_block(const at::Tensor& x, const NormWeights& weights);

}  // namespace sluice::ops
