// Lets nodes of autograd's graph add the gradients of weights where they add up, instead of handing
// them over as tensors.
//
// Owns: the sums that this thread's backward adds to, while it runs.
// Does not own: the sums (src/layer/gradient_sum.h), the nodes that add (src/ops).
//
// A node that finds no sum of a weight gives its gradient to the engine, as any other node.
// Thread-safety: a scope concerns its thread alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct Node;
}

namespace sluice {

// The sum of a weight's gradients, of its shape, dense; its contents mean nothing while is_empty.
struct SumTarget {
  at::Tensor sum;
  bool is_empty = false;  // this is the first gradient: write it, do not add
};

class WeightSums {
 public:
  virtual ~WeightSums() = default;
  // leaf: where the graph ends at the weight (AccumulateGrad). The caller adds exactly one gradient
  // at once. Undefined: the sum is not of the caller's dtype or nobody sums it up.
  virtual SumTarget target(const torch::autograd::Node* leaf) = 0;
};

// While it lives, the backward on this thread adds to these sums; null: to none.
class WeightSumsScope {
 public:
  explicit WeightSumsScope(WeightSums* sums);
  ~WeightSumsScope();
  WeightSumsScope(const WeightSumsScope&) = delete;
  WeightSumsScope& operator=(const WeightSumsScope&) = delete;

 private:
  WeightSums* outer_;
};

// Sums of the innermost scope of this thread; null: none.
WeightSums* current_weight_sums();

}  // namespace sluice
