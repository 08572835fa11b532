// An autograd node whose backward has two halves. The first computes the gradient of its input, the
// second the gradients of its weights, which accumulate in place (weight_sums.h).
//
// Running both halves in one engine pass gives the same bits as two passes, but the second half
// overlaps with the exchanges of the first. Each half frees the memory that no later half needs.
//
// Throws Error(kUsage) if a weight or the input was modified since the forward, and for a second
// backward. One rank's thread runs the node.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layer/autograd_node.h"
#include "layer/weight_sums.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice::ops {

// Receives weight gradients. Weights are numbered as in SplitNode::connect().
class WeightGradients {
 public:
  // True if the weight needs a gradient and has not received one.
  bool wants(std::size_t weight) const { return wanted_[weight]; }
  // Has the weight's shape. `adds`: accumulate instead of overwriting.
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
  // Gradients that were not accumulated in place.
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
  // `gradient` is contiguous. Returns an undefined tensor unless `wanted`. The Work may wait for
  // other ranks. The caller finishes it before the next call.
  virtual Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) = 0;
  virtual void weight_half(const at::Tensor& gradient, WeightGradients& gradients) = 0;
  // Stores the weight gradients that input_half() computed on the way.
  virtual void give_rest(WeightGradients& /*gradients*/) {}
  virtual void free_input_half() = 0;
  virtual void free_all() = 0;

  bool is_weight(std::size_t weight) const {
    return static_cast<bool>(next_edge(1 + weight).function);
  }
  static Work<at::Tensor> ready(at::Tensor dx) {
    return Work<at::Tensor>([dx = std::move(dx)] { return dx; });
  }

  // Declares that the backward communicates with `ranks`. It does so under the call place of the
  // forward.
  void share_backward(const SliceGroup& ranks);
  const SliceGroup& in_backward() const { return in_backward_; }

 private:
  void require_unchanged() const;

  std::vector<at::Tensor> weights_;
  std::vector<std::int64_t> versions_;
  c10::VariableVersion input_version_;  // lets the input be freed
  std::uint32_t entered_with_ = 0;
  std::vector<bool> weights_left_;
  SliceGroup in_backward_;
  bool input_done_ = false;
  bool is_over_ = false;
};

}  // namespace sluice::ops
