// An autograd node whose backward has two halves: first the gradient of its input, then the
// gradients of its weights, which it accumulates in place (weight_sums.h). Subclasses do the
// arithmetic; src/layer/split_backward.h decides when a half runs.
//
// Running both halves in one engine pass gives the same bits as running them separately. The first
// half runs once, and memory that only this half needs is freed after it. The rest is freed after
// the second half, or earlier if no weight needs a gradient. If ranks share the node and one pass
// needs both halves, the second half overlaps with the exchange of the first.
//
// Weights without requires_grad get no gradient. Throws Error(kUsage) if a weight or the input was
// modified since the forward, and for a second backward. One rank's thread runs the node.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layer/autograd_node.h"
#include "layer/weight_sums.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

// Where the second half writes gradients. Weights are numbered as in SplitNode::connect().
class WeightGradients {
 public:
  // True if this backward must compute the gradient of the weight. Each weight is requested only
  // once.
  bool wants(std::size_t weight) const { return wanted_[weight]; }
  // Memory with the weight's shape. If `adds`, the gradient is added to the values there, else it
  // overwrites them.
  struct Target {
    float* data = nullptr;
    bool adds = false;
  };
  Target begin(std::size_t weight);
  // Stores a computed gradient, which has the weight's shape.
  void give(std::size_t weight, const float* gradient);

 private:
  friend class SplitNode;
  std::vector<bool> wanted_;
  std::vector<at::Tensor> weights_;
  std::vector<const torch::autograd::Node*> leaves_;
  // Undefined if the gradient was accumulated in place or is not needed.
  std::vector<at::Tensor> handed_over_;
};

class SplitNode : public torch::autograd::Node {
 public:
  // True if grad mode is enabled and any of the tensors requires a gradient. Tensors may be
  // undefined.
  static bool wants_gradients(const at::Tensor& input, const std::vector<at::Tensor>& weights);
  // Makes this node the grad_fn of `output`. Call once, and only if gradients are needed.
  void connect(const at::Tensor& input, const std::vector<at::Tensor>& weights, at::Tensor& output);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) final;
  void release_variables() final;

 protected:
  // `gradient` is the contiguous gradient of the output. If `wanted` is false, the input needs no
  // gradient and the result is undefined. The Work may wait for other ranks. Its caller waits for
  // it before the next call.
  virtual Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) = 0;
  virtual void weight_half(const at::Tensor& gradient, WeightGradients& gradients) = 0;
  // Stores weight gradients that input_half() has already computed.
  virtual void give_rest(WeightGradients& /*gradients*/) {}
  // Frees what only input_half() reads.
  virtual void free_input_half() = 0;
  virtual void free_all() = 0;

  bool is_weight(std::size_t weight) const {
    return static_cast<bool>(next_edge(1 + weight).function);
  }
  static Work<at::Tensor> ready(at::Tensor dx) {
    return Work<at::Tensor>([dx = std::move(dx)] { return dx; });
  }

  // The backward will exchange with these ranks, under the forward's current call place.
  void share_backward(const SliceGroup& ranks);
  const SliceGroup& in_backward() const { return in_backward_; }

 private:
  void require_unchanged() const;

  std::vector<at::Tensor> weights_;
  std::vector<std::int64_t> versions_;
  c10::VariableVersion input_version_;  // of the input, without keeping it alive
  std::uint32_t entered_with_ = 0;
  std::vector<bool> weights_left_;  // whose gradients are not computed yet
  SliceGroup in_backward_;          // a single slice by default
  bool input_done_ = false;
  bool is_over_ = false;
};

}  // namespace sluice::ops
