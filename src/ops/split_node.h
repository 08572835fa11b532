// A node of autograd's graph with a backward in two halves: the gradient of what enters it, then
// those of its weights, which it adds where they add up (weight_sums.h).
//
// Owns: which half the engine asks for, where gradients of weights go, the place of its calls to
// other ranks.
// Does not own: the arithmetic (attention_block.h, feed_forward_block.h, ...), when a half runs
// (src/layer/split_backward.h).
//
// Invariants:
//  1. Both halves in one run of the engine have the bits of the first and then the second.
//  2. The first half runs once. What only it reads is free behind it; the rest when the second is
//     over, or is not wanted at all. Where ranks share the node, and one run of the engine asks for
//     both, the second half runs while the first waits for its sum over them.
//  3. A weight without requires_grad is left out. One that was written to since the forward is
//     refused, and so is an input, and a second backward.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layer/autograd_node.h"
#include "layer/weight_sums.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

// The memory into which the second half writes gradients: that of weight i of SplitNode::connect().
class WeightGradients {
 public:
  // True once for each weight whose gradient is asked for.
  bool wants(std::size_t weight) const { return wanted_[weight]; }
  // [as the weight]; adds: the gradient is added to what is there, else written over it.
  struct Target {
    float* data = nullptr;
    bool adds = false;
  };
  Target begin(std::size_t weight);
  // gradient [as the weight], already computed.
  void give(std::size_t weight, const float* gradient);

 private:
  friend class SplitNode;
  std::vector<bool> wanted_;
  std::vector<at::Tensor> weights_;
  std::vector<const torch::autograd::Node*> leaves_;
  std::vector<at::Tensor> handed_over_;  // undefined: added in place, or not wanted
};

class SplitNode : public torch::autograd::Node {
 public:
  // True if any of these wants a gradient, and a graph is recorded; undefined ones do not.
  static bool wants_gradients(const at::Tensor& input, const std::vector<at::Tensor>& weights);
  // Puts this node behind the result of its forward. Called once, where gradients are wanted.
  void connect(const at::Tensor& input, const std::vector<at::Tensor>& weights, at::Tensor& output);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) final;
  void release_variables() final;

 protected:
  // gradient: of the output, contiguous. wanted: whether the gradient of the input is; else the
  // result is undefined. The Work may wait for other ranks, and is over before another call.
  virtual Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) = 0;
  virtual void weight_half(const at::Tensor& gradient, WeightGradients& gradients) = 0;
  // Gives gradients of weights that come with that of the input.
  virtual void give_rest(WeightGradients& /*gradients*/) {}
  // Frees the values behind it that only input_half() reads.
  virtual void free_input_half() = 0;
  virtual void free_all() = 0;

  bool is_weight(std::size_t weight) const {
    return static_cast<bool>(next_edge(1 + weight).function);
  }
  static Work<at::Tensor> ready(at::Tensor dx) {
    return Work<at::Tensor>([dx = std::move(dx)] { return dx; });
  }

  // The calls of the backward are those of these ranks, at the place where the forward is now.
  void share_backward(const SliceGroup& ranks);
  const SliceGroup& in_backward() const { return in_backward_; }

 private:
  void require_unchanged() const;

  std::vector<at::Tensor> weights_;
  std::vector<std::int64_t> versions_;
  c10::VariableVersion input_version_;  // of what entered, without holding it
  std::uint32_t entered_with_ = 0;
  std::vector<bool> weights_left_;  // whose gradients nobody has asked for yet
  SliceGroup in_backward_;          // of one slice without a place
  bool input_done_ = false;
  bool is_over_ = false;
};

}  // namespace sluice::ops
