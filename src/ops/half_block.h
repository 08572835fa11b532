// The frame that both halves of a decoder block have, as a node:
// y = x + scale * norm(last(inside(projections(norm(x))))).
//
// Owns: norms and residual, the products of the projections and of the last layer, slice by slice,
// the exchanges with other ranks, the memory of all that.
// Does not own: what is inside (attention_block.cpp, feed_forward_block.cpp).
//
// Invariants:
//  1. Norms and residual are computed once, whatever the slices (slices.h).
//  2. Sums over ranks, and rows of other ranks, are exchanged in the forward and the gradient of x
//     alone. The sum of what the projections give that gradient is on its way while the gradients
//     of the matrices are computed, where a backward asks for both.
// CPU, float32. Thread-safety: one rank's thread.
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
  NormWeights behind;        // of the result
  float residual_scale = 1;  // of what is added to x; 1 where last has a bias
  bool adds_input = true;    // else y is what would be added

  // The weights are those that this rank's slices have of projections (their outputs), and of last
  // (its inputs, its bias whole).
  SliceGroup slices = {};
};

class HalfBlockNode : public SplitNode {
 public:
  at::Tensor forward();
  std::vector<at::Tensor> weights() const;  // as kBefore and the others below

 protected:
  // A slice's part of a projection: its outputs, and their gradient, which may take their place.
  struct Product {
    std::size_t projection = 0;
    LinearPart part;
    Rows y, dy;
  };

  HalfBlockNode(const at::Tensor& x_BLD, HalfBlock half);

  // ---- the inside ----

  // Take kept_ and only_input_; gradients_. What is inside first, then the frame's.
  virtual void take_forward_memory() = 0;
  virtual void take_backward_memory() = 0;
  virtual std::vector<Product> products(std::int64_t slice) const = 0;
  // The inputs of the last layer that a slice has, and their rows.
  virtual LinearPart inputs(std::int64_t slice) const = 0;
  virtual ConstRows inner(std::int64_t slice) const = 0;
  // From the products of a slice to its inner rows, and their gradient d_inner back.
  virtual void run(std::int64_t slice) = 0;
  virtual void run_gradient(std::int64_t slice, const float* d_inner) = 0;
  // Weights inside, behind those of projections; what is left to do when all slices have gradients.
  virtual std::vector<at::Tensor> weights_inside() const { return {}; }
  virtual void finish_gradients() {}
  virtual void give_inside(WeightGradients& /*gradients*/) {}

  void free_input_half() override;
  void free_all() override;

  // Places in weights().
  static constexpr std::size_t kBefore = 0, kBehind = 2, kLast = 4, kProjections = 6;

  // ---- memory of the frame, in blocks of the inside ----

  std::int64_t kept_floats() const { return keeps_normed() ? rows_ * hidden_ : 0; }
  void place_kept(Floats& kept);
  std::int64_t input_floats() const;
  void place_input(Floats& only);
  std::int64_t result_floats() const { return half_.behind.is_there() && !sliced_ ? own_size_ : 0; }
  std::int64_t sum_floats() const;
  // Sums over rows: those of the norms, then `inside` of sums over heads.
  void place_sums(Floats& all, std::int64_t inside);

  at::Tensor x_;
  const HalfBlock half_;
  const bool sliced_;
  const std::int64_t own_;                       // slices
  const std::int64_t hidden_, own_size_, rows_;  // own_size_: of x; rows of all ranks
  KeptBlock kept_, only_input_, gradients_;      // to the end; to the end of the input's half
  float* d_result_ = nullptr;                    // in gradients_, as d_inside_ is
  float* d_inside_ = nullptr;

 private:
  // A product with its weights. Columns of a transposed matrix have to be copied where they are not
  // all, so those that a slice has of one projection are one product.
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
  // Rows of all ranks: the input of the projections, the gradient behind their sum.
  at::Tensor entered_, of_all_rows_;
  at::Tensor summed_;                                                // in front of the norm behind
  float* normed_ = nullptr;                                          // in kept_
  float *before_ = nullptr, *result_ = nullptr, *behind_ = nullptr;  // in only_input_, or summed_
  float *d_before_ = nullptr, *d_behind_ = nullptr, *d_end_ = nullptr;
};

}  // namespace sluice::ops
