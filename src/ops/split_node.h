// An autograd node whose backward has two halves. The first computes the input's gradient, the
// second adds weight gradients in place (weight_sums.h).
//
// One engine pass that runs both halves gives the same bits as two, and overlaps the second half
// with communication in the first. Each half frees memory that is no longer needed.
//
// Throws Error(kUsage) for a second backward, and if a weight or the input was modified since the
// forward.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layer/autograd_node.h"
#include "layer/weight_sums.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

// Receives a node's weight gradients. Weights are numbered as in SplitNode::connect().
class WeightGradients {
 public:
  // True if the weight needs a gradient that is not computed yet.
  bool wants(std::size_t weight) const { return wanted_[weight]; }
  // Memory in the weight's shape. `adds`: add the gradient instead of overwriting.
  struct Target {
    float* data = nullptr;
    bool adds = false;
  };
  Target begin(std::size_t weight);
  void give(std::size_t weight, const float* gradient);

 private:
  friend class SplitNode;
  std::vector<bool> wanted_;
  std::vector<at::Tensor> weights_;
  std::vector<const torch::autograd::Node*> leaves_;
  // Gradients for the engine, whose weights have no sum.
  std::vector<at::Tensor> handed_over_;
};

class SplitNode : public torch::autograd::Node {
 public:
  static bool wants_gradients(const at::Tensor& input, const std::vector<at::Tensor>& weights);
  // Makes this node the grad_fn of `output`. Call at most once.
  void connect(const at::Tensor& input, const std::vector<at::Tensor>& weights, at::Tensor& output);

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) final;
  void release_variables() final;

 protected:
  // Returns the input's gradient, undefined unless `wanted`. `gradient` is contiguous. The Work may
  // wait for other ranks. The caller finishes it before the next call.
  virtual Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) = 0;
  virtual void weight_half(const at::Tensor& gradient, WeightGradients& gradients) = 0;
  // Stores weight gradients that input_half() has already computed.
  virtual void give_rest(WeightGradients& /*gradients*/) {}
  virtual void free_input_half() = 0;
  virtual void free_all() = 0;

  bool is_weight(std::size_t weight) const {
    return static_cast<bool>(next_edge(1 + weight).function);
  }
  static Work<at::Tensor> ready(at::Tensor dx) {
    return Work<at::Tensor>([dx = std::move(dx)] { return dx; });
  }

  // Declares that the backward communicates with `ranks`. Errors then name the forward's call
  // place.
  void share_backward(const SliceGroup& ranks);
  const SliceGroup& in_backward() const { return in_backward_; }

 private:
  void require_unchanged() const;

  std::vector<at::Tensor> weights_;
  std::vector<std::int64_t> versions_;
  c10::VariableVersion input_version_;  // detects writes to the input without keeping it alive
  std::uint32_t entered_with_ = 0;
  std::vector<bool> weights_left_;
  SliceGroup in_backward_;
  bool input_done_ = false;
  bool is_over_ = false;
};

}  // namespace sluice::ops
