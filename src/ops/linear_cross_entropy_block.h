// A linear layer and the sum of the softmax cross-entropies of its rows as one node, by blocks of
// its outputs: all logits are never there at once.
//
//   forward:   for each block: logits, their exponentials relative to the largest so far, and of
//              these, where a gradient of x is wanted, its part of that gradient
//   I:         that gradient, times the gradient of the loss
//   W:         for each block: the logits again, their gradient in their place, and its product
//              with x, which is the block's part of the weight's gradient
//
// So nothing of the size of the logits waits between the three, and they are made once more, in W
// alone: 2 products in the forward and 2 in W, where a linear layer with a loss behind it has 1
// in each of F, I and W.
//
// Slices of classes exchange the largest logits and sums in the forward, the gradient of x in I.
// Without blocks the exponentials of a slice stay to the backward, where they become the gradient
// of its logits: 1 product in each of F, I and W.
//
// Owns: the order of the blocks. Does not own: how many outputs are a block (its caller, by
// constants), the arithmetic of a block (kernels.h).
// CPU, float32. Invariant: the bits depend on operands, size of a block and, of LibTorch's products
// (products.h), number of threads and of rows; each part of the weight's gradient is one product
// over all rows.
// Thread-safety: pure functions; a graph belongs to one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/products.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

struct LinearCrossEntropy {
  LinearWeights linear;    // without bias, [classes, in]
  float scale = 1;         // of the logits
  float cap = 0;           // they then become cap * tanh(logit / cap); 0: none
  std::int64_t block = 0;  // outputs of one; 0: all of a slice, which are kept

  // The weight has the classes of this rank's slices, of all `classes`. Each slice has blocks of
  // its own, its own largest logit and gradient of x; these are put together when all are there.
  SliceGroup slices = {};
  std::int64_t classes = 0;
};

// x [.., in], of R rows, of which this rank may have a part (sequence parallelism); labels_R: int64
// in [0, classes), or negative: does not count. Returns a float32 scalar. Precondition: the labels
// are in range.
at::Tensor linear_cross_entropy_block(const at::Tensor& x, const LinearCrossEntropy& loss,
                                      const at::Tensor& labels_R);

}  // namespace sluice::ops
