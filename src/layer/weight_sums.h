// Lets autograd nodes add weight gradients directly to their sums (gradient_sum.h). Without a sum,
// a node returns the gradient to the engine as usual.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct Node;
}

namespace sluice {

struct SumTarget {
  at::Tensor sum;
  bool is_empty = false;  // uninitialized: write the first gradient instead of adding
};

class WeightSums {
 public:
  virtual ~WeightSums() = default;
  // Returns the sum for a weight's AccumulateGrad node. The caller must immediately add exactly one
  // gradient. Undefined if there is no sum or its dtype differs.
  virtual SumTarget target(const torch::autograd::Node* leaf) = 0;
};

// Backwards on this thread add to `sums` (null: none) while the scope exists.
class WeightSumsScope {
 public:
  explicit WeightSumsScope(WeightSums* sums);
  ~WeightSumsScope();
  WeightSumsScope(const WeightSumsScope&) = delete;
  WeightSumsScope& operator=(const WeightSumsScope&) = delete;

 private:
  WeightSums* outer_;
};

WeightSums* current_weight_sums();

}  // namespace sluice
