// A linear layer, and a norm, each as one node whose weight gradients are added where they add up.
// CPU, float32. Thread-safety: pure functions; a graph belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/norm.h"
#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

// [.., in] -> [.., out].
at::Tensor linear_block(const at::Tensor& x, const LinearWeights& weights);
// [.., width] of the norm's weight; where ranks divide rows, those of this one of [B, L, width].
at::Tensor norm_block(const at::Tensor& x, const NormWeights& weights,
                      const SliceGroup& slices = {});

}  // namespace sluice::ops
