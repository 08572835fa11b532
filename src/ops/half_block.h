// Base class for the two halves of a decoder block (attention, feed-forward) as an autograd node:
//   y = x + scale * norm(last(inside(projections(norm(x)))))
// Subclasses compute `inside`.
//
// Norms and residual are computed once, not per slice (slices.h). Ranks communicate only in the
// forward and for the gradient of x. A backward for all gradients computes weight gradients while
// the gradient of x is summed over ranks. CPU and float32 only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/block_parts.h"
#include "ops/kept_memory.h"
#include "ops/norm.h"
#include "ops/products.h"
#include "ops/slices.h"
#include "ops/split_node.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

struct HalfBlock {
  NormWeights before;
  std::vector<LinearWeights> projections = {};
  LinearWeights last;
  NormWeights behind;  // norm of the output of `last`
  // Factor of the term that is added to x. Must be 1 if `last` has a bias.
  float residual_scale = 1;
  bool adds_input = true;  // whether x is added (residual connection)

  // Each rank holds its slices of each projection's outputs and of the inputs of `last`, and the
  // whole bias of `last`.
  SliceGroup slices = {};
};

class HalfBlockNode : public SplitNode {
 public:
  at::Tensor forward();
  std::vector<at::Tensor> weights() const;

 protected:
  // A projection's outputs y for one slice, and their gradient dy. Both may share memory.
  struct Product {
    std::size_t projection = 0;
    LinearPart part;
    Rows y, dy;
  };

  HalfBlockNode(const at::Tensor& x_BLD, HalfBlock half);

  // ---- implemented by subclasses ----

  // Allocate kept_ and only_input_, or gradients_. The subclass's memory comes first, then this
  // class's.
  virtual void take_forward_memory() = 0;
  virtual void take_backward_memory() = 0;
  virtual std::vector<Product> products(std::int64_t slice) const = 0;
  virtual LinearPart inputs(std::int64_t slice) const = 0;
  virtual ConstRows inner(std::int64_t slice) const = 0;
  // run() computes inner(slice) from the products y. run_gradient() computes the products' dy from
  // d_inner.
  virtual void run(std::int64_t slice) = 0;
  virtual void run_gradient(std::int64_t slice, const float* d_inner) = 0;
  // For weights of `inside` other than projections, such as head norms. finish_gradients() runs
  // after all slices.
  virtual std::vector<at::Tensor> weights_inside() const { return {}; }
  virtual void finish_gradients() {}
  virtual void give_inside(WeightGradients& /*gradients*/) {}

  void free_input_half() override;
  void free_all() override;

  static constexpr std::size_t kBefore = 0, kBehind = 2, kLast = 4, kProjections = 6;

  std::int64_t kept_floats() const { return keeps_normed() ? rows_ * hidden_ : 0; }
  void place_kept(Floats& kept);
  std::int64_t input_floats() const;
  void place_input(Floats& only);
  std::int64_t result_floats() const { return half_.behind.is_there() && !sliced_ ? own_size_ : 0; }
  std::int64_t sum_floats() const;
  // Reserves the norms' weight gradients, then `inside` floats for the subclass.
  void place_sums(Floats& all, std::int64_t inside);

  at::Tensor x_;
  const HalfBlock half_;
  const bool sliced_;
  const std::int64_t own_;                       // number of this rank's slices
  const std::int64_t hidden_, own_size_, rows_;  // own_size_: floats of x. rows_: on all ranks.
  // only_input_ is freed after input_half(), kept_ and gradients_ after the whole backward.
  KeptBlock kept_, only_input_, gradients_;
  float* d_result_ = nullptr;
  float* d_inside_ = nullptr;

 private:
  // One matrix product. Selecting columns of a transposed weight requires a copy, so we use one
  // product for all outputs of such a projection in a slice.
  struct WeightedProduct {
    LinearWeights weights;
    Rows y, dy;
  };

  Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) final;
  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) final;
  void give_rest(WeightGradients& gradients) final;

  bool keeps_normed() const { return half_.before.is_there() && !sliced_; }
  std::vector<WeightedProduct> weighted_products(std::int64_t slice) const;
  const float* input() const;
  void enter(const float* x);
  at::Tensor leave(const float* x);
  void add_normed_result(const float* x, float* y);
  void through_behind(const float* dy, float* d_result) const;
  at::Tensor gradient_of_input(const float* dy) const;
  at::Tensor gradient_of_slices() const;
  void leave_backwards(const at::Tensor& gradient, at::Tensor& dx_BLD) const;
  void project_gradient(std::int64_t slice, float* d_input, bool adds) const;
  void sum_shared_weights(bool has_before) const;
  void give_projection(std::size_t projection, WeightGradients& gradients) const;

  const std::vector<RowBlock> blocks_;
  // The projections' input, and the gradient of the output of `last`. Both have the rows of all
  // ranks.
  at::Tensor entered_, of_all_rows_;
  at::Tensor summed_;  // input of the norm half_.behind
  float* normed_ = nullptr;
  float *before_ = nullptr, *result_ = nullptr, *behind_ = nullptr;
  float *d_before_ = nullptr, *d_behind_ = nullptr, *d_end_ = nullptr;
};

}  // namespace sluice::ops
