// The shared parts of the nodes of both halves of a decoder block.
// Thread-safety: pure functions.
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

// One after another in a block of memory.
class Floats {
 public:
  explicit Floats(float* begin) : next_(begin) {}
  float* take(std::int64_t floats) { return std::exchange(next_, next_ + floats); }

 private:
  float* next_;
};

// The end of a half of a block that has no norm behind it: y = scale * (inner W^T) + x (null: 0),
// and the bias.
void add_result(std::int64_t rows, const LinearWeights& last, ConstRows inner, const float* x,
                float scale, float* y);

// The same of a sum over slices, in place: y = scale * y + x.
void add_sum(std::int64_t size, const float* x, float scale, float* y);

// Gradients of weight `index` and the bias behind it.
void give_linear(std::int64_t rows, const LinearWeights& weights, std::size_t index, ConstRows dy,
                 ConstRows x, float scale, WeightGradients& gradients);
// Gives the gradients of a norm's weight `index` and the bias behind it. gradient: as
// norm_gradient() writes it.
void give_norm(const NormWeights& norm, std::size_t index, const float* gradient,
               WeightGradients& gradients);

void scale_all(std::int64_t size, float scale, float* values);

// node: its name, for the message. An undefined weight is none.
void require_contiguous(const std::string& node, const at::Tensor& weight);

// Runs the forward of a node and hangs the node into the graph, where anything wants a gradient.
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
