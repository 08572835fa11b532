#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/norm.h"
#include "ops/products.h"
#include "ops/split_node.h"

namespace sluice::ops {

class Floats {
 public:
  explicit Floats(float* begin) : next_(begin) {}
  float* take(std::int64_t floats) { return std::exchange(next_, next_ + floats); }

 private:
  float* next_;
};

// Computes y = scale * (inner W^T) + bias + x, with W and bias of `last`. A null x counts as 0.
void add_result(std::int64_t rows, const LinearWeights& last, ConstRows inner, const float* x,
                float scale, float* y);

// y = scale * y + x. A null x counts as 0.
void add_sum(std::int64_t size, const float* x, float scale, float* y);

// Computes a linear layer's gradients and stores them as those of weight `index` and bias `index` +
// 1.
void give_linear(std::int64_t rows, const LinearWeights& weights, std::size_t index, ConstRows dy,
                 ConstRows x, float scale, WeightGradients& gradients);
// Stores the norm's gradients, which norm_gradient() wrote to `gradient`.
void give_norm(const NormWeights& norm, std::size_t index, const float* gradient,
               WeightGradients& gradients);

void scale_all(std::int64_t size, float scale, float* values);

// Throws Error(kUsage) for a weight that is not contiguous. An undefined weight passes.
void require_contiguous(const std::string& node, const at::Tensor& weight);

// Runs a node's forward. Adds the node to the autograd graph if gradients are needed.
template <typename NodeType, typename... Arguments>
at::Tensor run_node(const at::Tensor& x, Arguments&&... arguments) {
  const at::Tensor input = x.contiguous();
  const NodePtr pointer =
      make_node<NodeType>(input.detach(), std::forward<Arguments>(arguments)...);
  auto& node = static_cast<NodeType&>(*pointer);
  const std::vector<at::Tensor> weights = node.weights();
  for (const at::Tensor& weight : weights) require_contiguous(node.name(), weight);
  const bool wants = SplitNode::wants_gradients(input, weights);
  at::Tensor y;
  {
    const at::AutoGradMode no_graph(false);
    y = node.forward();
  }
  if (wants) node.connect(input, weights, y);
  return y;
}

}  // namespace sluice::ops
