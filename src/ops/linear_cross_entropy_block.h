// A linear layer and the summed softmax cross-entropy of its outputs as one autograd node. Works by
// blocks of classes, so that all logits never exist at once.
//
//   forward:          per block, computes logits, their exponentials relative to the largest logit
//                     so far, and the block's part of the gradient of x, if needed
//   input gradient:   multiplies the gradient of x by the loss's gradient
//   weight gradient:  per block, recomputes the logits and their gradient, whose product with x is
//                     the block's part of the weight's gradient
//
// Nothing as large as the logits stays alive. The price is a fourth product: 2 in the forward and 2
// for the weight gradient. Without blocks, the exponentials stay alive and save this product.
//
// If ranks divide the classes, they exchange largest logits and sums in the forward, and sum the
// gradient of x.
//
// CPU and float32 only. Bits depend on the block size and on the bits of products (products.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

struct LinearCrossEntropy {
  LinearWeights linear;  // weight [classes, in], no bias
  float scale = 1;
  // Replaces scaled logits by cap * tanh(logit / cap). 0: no cap.
  float cap = 0;
  // Classes per block. 0: one block per slice, whose exponentials are saved for the backward.
  std::int64_t block = 0;

  // Each rank holds the weights of its slices of all `classes`.
  SliceGroup slices = {};
  std::int64_t classes = 0;
};

// x is [.., in] with R rows, or with this rank's part of the R rows. Labels are int64 below
// `classes`, unchecked. Rows with a negative label do not count.
at::Tensor linear_cross_entropy_block(const at::Tensor& x, const LinearCrossEntropy& loss,
                                      const at::Tensor& labels_R);

}  // namespace sluice::ops
