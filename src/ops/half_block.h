// The frame that both halves of a decoder block share, as an autograd node:
//   y = x + scale * norm(last(inside(projections(norm(x)))))
// Subclasses provide `inside` (attention_block.cpp, feed_forward_block.cpp). The frame computes
// everything around it: norms, residual, projections, the last layer and the exchanges with other
// ranks.
//
// Norms and residual are computed once, regardless of the number of slices (slices.h). Ranks
// exchange rows and sums only in the forward and in the gradient of x. If one backward computes
// both halves, the gradients of the projection and output weights overlap with the all-reduce of
// the gradient of x. CPU and float32 only. One rank's thread runs the node.
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
  NormWeights before;  // of x
  std::vector<LinearWeights> projections = {};
  LinearWeights last;
  NormWeights behind;  // of the output of `last`
  // Multiplies the term that is added to x. Must be 1 if `last` has a bias.
  float residual_scale = 1;
  bool adds_input = true;  // if false, the residual x is not added

  // The weights are shards. Of each projection, this rank holds the outputs of its slices. Of
  // `last`, it holds the inputs of its slices and the whole bias.
  SliceGroup slices = {};
};

class HalfBlockNode : public SplitNode {
 public:
  at::Tensor forward();
  std::vector<at::Tensor> weights() const;  // in the order of kBefore and the constants below

 protected:
  // The outputs of a projection that belong to one slice. Their gradient dy may overwrite y.
  struct Product {
    std::size_t projection = 0;
    LinearPart part;
    Rows y, dy;
  };

  HalfBlockNode(const at::Tensor& x_BLD, HalfBlock half);

  // ---- the inside ----

  // Allocate kept_ and only_input_, or gradients_. The subclass's part comes first, the frame's
  // part follows.
  virtual void take_forward_memory() = 0;
  virtual void take_backward_memory() = 0;
  virtual std::vector<Product> products(std::int64_t slice) const = 0;
  // The inputs of the last layer that belong to a slice, and their rows.
  virtual LinearPart inputs(std::int64_t slice) const = 0;
  virtual ConstRows inner(std::int64_t slice) const = 0;
  // run() computes the inner rows of a slice from its products. run_gradient() goes back from the
  // gradient d_inner.
  virtual void run(std::int64_t slice) = 0;
  virtual void run_gradient(std::int64_t slice, const float* d_inner) = 0;
  // Weights inside follow those of the projections in weights(). finish_gradients() runs after
  // run_gradient() of all slices.
  virtual std::vector<at::Tensor> weights_inside() const { return {}; }
  virtual void finish_gradients() {}
  virtual void give_inside(WeightGradients& /*gradients*/) {}

  void free_input_half() override;
  void free_all() override;

  // Indices into weights().
  static constexpr std::size_t kBefore = 0, kBehind = 2, kLast = 4, kProjections = 6;

  // ---- memory of the frame, in blocks of the inside ----

  std::int64_t kept_floats() const { return keeps_normed() ? rows_ * hidden_ : 0; }
  void place_kept(Floats& kept);
  std::int64_t input_floats() const;
  void place_input(Floats& only);
  std::int64_t result_floats() const { return half_.behind.is_there() && !sliced_ ? own_size_ : 0; }
  std::int64_t sum_floats() const;
  // Places the weight gradients of the norms, then `inside` floats for those of the head norms.
  void place_sums(Floats& all, std::int64_t inside);

  at::Tensor x_;
  const HalfBlock half_;
  const bool sliced_;
  const std::int64_t own_;                       // number of slices on this rank
  const std::int64_t hidden_, own_size_, rows_;  // own_size_: floats of x; rows_: over all ranks
  // kept_ and gradients_ live until the whole backward is over, only_input_ until input_half()
  // is.
  KeptBlock kept_, only_input_, gradients_;
  float* d_result_ = nullptr;  // points into gradients_, as d_inside_ does
  float* d_inside_ = nullptr;

 private:
  // A product together with its weights. A slice's columns of a transposed matrix must be copied
  // unless the slice has all of them. Therefore all outputs of one projection in a slice form one
  // product.
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

  const std::vector<RowBlock> blocks_;  // of x
  // Rows of all ranks. entered_ is the input of the projections, of_all_rows_ the gradient of the
  // output of `last`.
  at::Tensor entered_, of_all_rows_;
  at::Tensor summed_;        // input of the norm `behind`
  float* normed_ = nullptr;  // points into kept_
  float *before_ = nullptr, *result_ = nullptr,
        *behind_ = nullptr;  // point into only_input_, result_ also into summed_
  float *d_before_ = nullptr, *d_behind_ = nullptr, *d_end_ = nullptr;
};

}  // namespace sluice::ops
