// A linear layer and the summed softmax cross-entropy of its outputs as one autograd node. It works
// by blocks of classes, so that all logits never exist at once.
//
//   forward: per block, computes logits, their exponentials relative to the largest logit so far,
//            and the block's part of the gradient of x, if needed
//   I:       multiplies the gradient of x by the loss's gradient
//   W:       per block, recomputes the logits and their gradient, whose product with x is the
//            block's part of the weight's gradient
//
// Nothing as large as the logits stays alive. The price is a fourth product: 2 in the forward and 2
// in W.
//
// Slices of classes exchange largest logits and sums in the forward, and the gradient of x in I.
// Without blocks, the exponentials stay alive and save the extra product.
//
// CPU and float32 only. Bits depend on the operands and the block size; with LibTorch's products
// (products.h) also on the number of threads and rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

struct LinearCrossEntropy {
  LinearWeights linear;  // [classes, in], without bias
  float scale = 1;
  // Scaled logits become cap * tanh(logit / cap). 0: none.
  float cap = 0;
  // Classes per block. 0: the whole slice, whose exponentials are kept.
  std::int64_t block = 0;

  // Each rank holds the weights of its slices, out of `classes`.
  SliceGroup slices = {};
  std::int64_t classes = 0;
};

// x [.., in] has R rows, or this rank's part of them. Labels are int64 in [0, classes), unchecked;
// negative labels do not count. Returns a float32 scalar.
at::Tensor linear_cross_entropy_block(const at::Tensor& x, const LinearCrossEntropy& loss,
                                      const at::Tensor& labels_R);

}  // namespace sluice::ops
