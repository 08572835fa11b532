// Computes a linear layer and the summed softmax cross-entropy of its outputs as one autograd node.
// It works by blocks of classes, so that all logits never exist at once.
//
//   forward: for each block, computes the logits and their exponentials relative to the largest
//            logit so far. Adds the block's part of the gradient of x, if that is needed.
//   I:       multiplies the gradient of x by the gradient of the loss.
//   W:       for each block, computes the logits again and replaces them by their gradient. The
//            product with x is the block's part of the weight's gradient.
//
// No tensor as large as the logits stays alive between these passes. The price is one more product:
// 2 in the forward, 0 in I and 2 in W, where a linear layer followed by a loss has 1 in each.
//
// With slices of classes, ranks exchange largest logits and sums in the forward, and sum the
// gradient of x in I. Without blocks, the exponentials stay alive until the backward, which turns
// them into the gradient of the logits. That costs 1 product in each of forward, I and W.
//
// CPU and float32 only. The bits depend on the operands and the block size. With LibTorch's
// products (products.h), they also depend on the number of threads and rows. Each part of the
// weight's gradient is one product over all rows. One rank's thread must run both forward and
// backward of a graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

struct LinearCrossEntropy {
  LinearWeights linear;  // [classes, in], without bias
  float scale = 1;       // multiplies the logits
  // The scaled logits become cap * tanh(logit / cap). 0 disables the cap.
  float cap = 0;
  // Classes per block. 0 means all classes of a slice, whose exponentials are then kept.
  std::int64_t block = 0;

  // The weight holds the classes of this rank's slices, out of `classes`. Each slice has its own
  // blocks, largest logit and gradient of x. These are combined after the last block.
  SliceGroup slices = {};
  std::int64_t classes = 0;
};

// x is [.., in] and has R rows, of which this rank may hold a part (sequence parallelism). labels_R
// holds int64 classes in [0, classes), which are not checked; rows with a negative label do not
// count. Returns a float32 scalar.
at::Tensor linear_cross_entropy_block(const at::Tensor& x, const LinearCrossEntropy& loss,
                                      const at::Tensor& labels_R);

}  // namespace sluice::ops
