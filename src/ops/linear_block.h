// A linear layer and a norm as autograd nodes that accumulate weight gradients in place. CPU and
// float32 only. One rank's thread must run both forward and backward of a graph.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/norm.h"
#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

// [.., in] -> [.., out]
at::Tensor linear_block(const at::Tensor& x, const LinearWeights& weights);
// x is [.., width]. With sequence parallelism x is [B, L, width] and holds this rank's rows only.
at::Tensor norm_block(const at::Tensor& x, const NormWeights& weights,
                      const SliceGroup& slices = {});

}  // namespace sluice::ops
