// Lets autograd nodes add weight gradients directly to their sums (gradient_sum.h). A node without
// a sum returns its gradient to the engine as usual.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct Node;
}

namespace sluice {

// A dense sum.
struct SumTarget {
  at::Tensor sum;
  bool is_empty = false;  // uninitialized: write the first gradient instead of adding it
};

class WeightSums {
 public:
  virtual ~WeightSums() = default;
  // Returns the sum for a weight's AccumulateGrad node. The caller must immediately add exactly one
  // gradient. Undefined without a sum, or if its dtype differs.
  virtual SumTarget target(const torch::autograd::Node* leaf) = 0;
};

// While it lives, backwards on this thread add to these sums (null: to none).
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
