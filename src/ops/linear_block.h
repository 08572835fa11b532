// Autograd nodes for a linear layer and for a norm that add weight gradients in place. CPU and
// float32 only.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/norm.h"
#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

at::Tensor linear_block(const at::Tensor& x, const LinearWeights& weights);
// x is [.., width], or [B, L, width] with this rank's rows only.
at::Tensor norm_block(const at::Tensor& x, const NormWeights& weights,
                      const SliceGroup& slices = {});

}  // namespace sluice::ops
